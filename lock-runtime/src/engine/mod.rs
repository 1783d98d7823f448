//! The seam to whatever keeps the locks.

pub(crate) mod inspection;
pub(crate) mod member;
pub(crate) mod memory;
pub(crate) mod open;
pub(crate) mod quorum;
pub(crate) mod redis;

use crate::engine::inspection::Inspection;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// The answer to one request, bounded by the instant the request names.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send + 'a>>;

/// Who is told when the engine has [`News`]. It must not block.
pub(crate) type Ear = Arc<dyn Fn(News) + Send + Sync>;

/// Something that keeps locks: it knows keys, tokens and times, and nothing of guards or tasks.
///
/// A request that fails with [`Fault::Unanswered`] may have been carried out. Dropping an answer
/// does not call the request back.
pub(crate) trait Engine: Send + Sync {
    /// Takes the lock if it is free; false if it is not. It counts when so many replicas know of it as
    /// the claim asks for.
    fn acquire<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, bool>;

    /// Stands in the lock's queue, or goes on standing there. A lock that is granted later is told
    /// to the [`Ear`].
    ///
    /// It can be asked again and again: a claim has one place, and a lock it got already is its own.
    /// What is granted has not been acknowledged by any replica.
    /// The server refuses the request once its clock is past `void_after`.
    fn wait<'a>(
        &'a self,
        claim: &'a Claim,
        void_after: Option<ServerTime>,
        until: Instant,
    ) -> Answer<'a, Standing>;

    /// Leaves the queue, or gives back what was granted meanwhile; true if it was. `unanswered`: a
    /// request of the claim may still be on its way, and must not be carried out after this one.
    fn cancel<'a>(&'a self, claim: &'a Claim, unanswered: bool, until: Instant)
    -> Answer<'a, bool>;

    /// A grant was found out by asking, which should have been told: whatever brings the news may
    /// be broken.
    fn missed(&self) {}

    /// Whether a request about that lock would be served by the calling runtime itself.
    fn is_at_home(&self, _name: &str) -> bool {
        false
    }

    /// Whether no other manager can wait for locks that this engine keeps.
    fn is_alone(&self) -> bool {
        false
    }

    /// Frees the lock if it is the claim's, and grants it to the first in the queue; false if it
    /// was not.
    fn release<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, bool>;

    /// Gives each lock that is still the claim's its whole ttl again; says of each whether it was, or
    /// why that is not known.
    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        until: Instant,
    ) -> Answer<'a, Vec<Result<bool, EngineError>>>;

    /// On which server a lock is kept, and where there. Those in the same place are best renewed
    /// together; a server that is slow must not hold up those of another.
    fn kept_at(&self, _name: &str) -> (usize, u16) {
        (0, 0)
    }

    /// The address of the node that keeps a lock, where there are several.
    fn node_of(&self, _name: &str) -> Option<Arc<str>> {
        None
    }

    /// A number greater than any given out before, or none if the lock is not the claim's.
    fn fencing_token<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, Option<u64>>;

    /// Looks for what makes the servers unsafe for locks of that ttl that so many replicas acknowledge.
    fn inspect(
        &self,
        _ttl: Duration,
        _replicas: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        Box::pin(std::future::ready(Inspection::default()))
    }

    /// Waits for what goes on after requests have been answered, for a moment.
    fn rest(&self) -> Answer<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

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

/// What an engine tells without being asked.
#[derive(Clone, Debug)]
pub(crate) enum News {
    /// The lock has been granted to a claim that waits.
    Granted(Grant),
    /// A claim is the first in its queue now.
    First(Token),
    /// The lock that a claim waits for may be free now.
    Free(Token),
    /// A claim that stood alone in its queue no longer does.
    Others(Token),
    /// Something may have been missed.
    Resumed,
}

#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) name: Arc<str>,
    pub(crate) token: Token,
    pub(crate) at: ServerTime,
    pub(crate) lease: Duration,
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

/// How long a cancelled claim is remembered: longer than any request of it can be on its way.
pub(crate) const TOMBSTONE: Duration = Duration::from_secs(50);

/// The identity of a hold: random, and new for every attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Token(Uuid);

impl Token {
    pub(crate) fn fresh() -> Token {
        Token(Uuid::new_v4())
    }

    pub(crate) fn parse(text: &str) -> Option<Token> {
        Uuid::try_parse(text).ok().map(Token)
    }

    pub(crate) fn encode(self, buffer: &mut [u8; 32]) -> &str {
        self.0.simple().encode_lower(buffer)
    }
}

/// Why an engine gave no answer.
#[derive(Clone, Debug)]
pub(crate) struct EngineError {
    pub(crate) fault: Fault,
    pub(crate) source: Arc<dyn Error + Send + Sync>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is no connection: nothing was sent.
    Down,
    /// It was sent, and no answer came: it may have been carried out.
    Unanswered,
    /// It was carried out, and too few replicas know of it.
    Unacknowledged,
    /// The server declined for now, as while it loads its data.
    Hindered,
    /// The server declined for good, as for want of permission.
    Refused,
}

impl EngineError {
    pub(crate) fn new(fault: Fault, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        EngineError {
            fault,
            source: Arc::from(source.into()),
        }
    }

    /// Whether the same request may succeed a moment later.
    pub(crate) fn is_transient(&self) -> bool {
        self.fault != Fault::Refused
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}
