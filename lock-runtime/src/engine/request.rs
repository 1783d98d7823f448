//! Requests to an engine and their replies.

use crate::engine::error::EngineError;
use crate::engine::token::Token;
use crate::limit::Limit;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The reply to one request, which arrives by the deadline of the request.
pub(crate) type EngineFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send + 'a>>;

/// What a caller wants to acquire. The engine draws a token for it.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// The name under which the engine stores the lock: prefix and key.
    pub(crate) name: Arc<str>,
    pub(crate) ttl: Duration,
    /// How many replicas must acknowledge the acquisition before it counts.
    pub(crate) replicas: u32,
    pub(crate) limit: Limit,
}

impl Attempt {
    /// Returns the claim of this attempt with that token.
    pub(crate) fn claim(&self, token: Token) -> Claim {
        Claim {
            name: self.name.clone(),
            token,
            ttl: self.ttl,
            replicas: self.replicas,
        }
    }
}

/// One attempt to acquire a lock.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    /// The name under which the engine stores the lock: prefix and key.
    pub(crate) name: Arc<str>,
    pub(crate) token: Token,
    pub(crate) ttl: Duration,
    /// How many replicas must acknowledge the acquisition before it counts.
    pub(crate) replicas: u32,
}

/// The state of a claim after it has entered a queue.
#[derive(Debug)]
pub(crate) enum EnqueueReply {
    /// The claim acquires the lock, for that long from now.
    Granted(Duration),
    /// The claim held the lock already, and still does, for that long.
    AlreadyHeld(Duration),
    /// The claim acquires the lock under another token, for that long from now, and leaves the queue.
    GrantedAs(Token, Duration),
    Queued(QueueStatus),
    /// The request was ignored: it came too late, or after the claim was canceled.
    Stale,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueStatus {
    /// When the reply was sent.
    pub(crate) server_time: ServerTime,
    /// The time until a lease ends that keeps the claim from acquiring the lock.
    pub(crate) holder_ttl: Duration,
    /// The number of claims ahead of this one.
    pub(crate) position: u64,
    /// `true` if other claims wait in the queue.
    pub(crate) has_others: bool,
}

/// A point in an engine's own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServerTime(pub(crate) Duration);
