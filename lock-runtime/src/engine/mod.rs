//! The seam to whatever keeps the locks.

pub(crate) mod memory;
pub(crate) mod redis;

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

/// Something that keeps locks: it knows keys, tokens and times, and nothing of guards or tasks.
///
/// A request that fails with [`Fault::Unanswered`] may have been carried out. Dropping an answer
/// does not call the request back.
pub(crate) trait Engine: Send + Sync {
    /// Takes the lock if it is free; false if it is not.
    fn acquire<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, bool>;

    /// Frees the lock if it is the claim's; false if it was not.
    fn release<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, bool>;

    /// Gives each lock that is still the claim's its whole ttl again; says of each whether it was.
    fn renew<'a>(&'a self, claims: &'a [Claim], until: Instant) -> Answer<'a, Vec<bool>>;

    /// A number greater than any given out before, or none if the lock is not the claim's.
    fn fencing_token<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, Option<u64>>;
}

/// One attempt's claim to a lock: which, whose, for how long.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    /// The name under which the engine keeps the lock: prefix and key.
    pub(crate) name: Arc<str>,
    pub(crate) token: Token,
    pub(crate) ttl: Duration,
}

/// The identity of a hold: random, and new for every attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token(Uuid);

impl Token {
    pub(crate) fn fresh() -> Token {
        Token(Uuid::new_v4())
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
