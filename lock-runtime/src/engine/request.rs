//! Requests to an engine and their replies.

use crate::engine::error::EngineError;
use crate::engine::token::Token;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The answer to one request, bounded by the instant the request names.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send + 'a>>;

/// One attempt's claim to a lock: which, whose, for how long.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    /// The name under which the engine keeps the lock: prefix and key.
    pub(crate) name: Arc<str>,
    pub(crate) token: Token,
    pub(crate) ttl: Duration,
    /// How many replicas must know of it before it counts, where there are any.
    pub(crate) replicas: u32,
}

/// How a claim stands after it has asked.
#[derive(Debug)]
pub(crate) enum Standing {
    /// It gets the lock, for so long from now.
    Granted(Duration),
    /// It has got the lock already, and still has it for so long.
    Adopted(Duration),
    /// It gets the lock with another token, for so long from now, and leaves the queue.
    Elected(Token, Duration),
    Waiting(Waiting),
    /// The request was void: it came too late, or after the claim was cancelled.
    Void,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// When this was answered.
    pub(crate) at: ServerTime,
    /// How long the holder has the lock for, if it doesn't renew it.
    pub(crate) holder_left: Duration,
    /// How many stand before the claim.
    pub(crate) ahead: u64,
    /// Whether anybody but the claim stands in the queue.
    pub(crate) others: bool,
}

/// A point in an engine's own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServerTime(pub(crate) Duration);

/// For how long a claim in a queue counts as alive without asking again.
pub(crate) const ALIVE: Duration = Duration::from_secs(25);

/// How long a granted lock is held for at first, so that a claim that has died costs the others
/// little. The scripts know it too.
pub(crate) const GRANT: Duration = Duration::from_secs(2);

/// For how long a claim that is woken does: one that stands in the queue of a lock that another claim
/// found free. The lock is reserved for 10 ms more.
pub(crate) const WOKEN: Duration = Duration::from_millis(190);

/// For how long at least a claim is released that the server may still carry out: a frozen server does so
/// when it is back, and the ttl begins only then.
pub(crate) const OUTAGE: Duration = Duration::from_secs(600);

/// How long a cancelled claim is remembered: longer than any request of it can be on its way.
pub(crate) const TOMBSTONE: Duration = Duration::from_secs(50);
