//! The trait of everything that keeps locks.

use crate::engine::error::EngineError;
use crate::engine::inspection::Inspection;
use crate::engine::request::{Answer, Claim, ServerTime, Standing};
use crate::engine::token::Token;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

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

    /// Nobody asks for this claim any more, which may not have been released.
    fn forget(&self, _token: Token) {}

    /// Waits for what goes on after requests have been answered, for a moment.
    fn rest(&self) -> Answer<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}
