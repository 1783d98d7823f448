//! The trait of all engines.

use crate::engine::background_release::{BackgroundRelease, ReleaseSupervisor};
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::inspection::Inspection;
use crate::engine::lease::Lease;
use crate::engine::operations::Operations;
use crate::engine::request::{Acquired, Attempt, Claim, EngineFuture, EnqueueReply, ServerTime};
use crate::engine::token::Token;
use crate::error::LockError;
use crate::options::LockOptions;
#[cfg(feature = "postgres")]
use crate::transaction_proof::TransactionProof;
use crate::util::clock::Timestamp;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A store of locks. It knows keys, tokens and times, and nothing of guards or tasks.
///
/// A request that fails with [`EngineErrorKind::Indeterminate`](crate::engine::error::EngineErrorKind) may
/// have been carried out. Dropping the future of a request does not recall the request.
pub(crate) trait Engine: Operations {
    /// Returns the wait for the first connection, at most until the deadline, if there was none yet. Only after it the
    /// engine knows which options it supports, and in which order calls acquire several locks.
    fn first_connection(&self, _deadline: Instant) -> Option<EngineFuture<'_, ()>> {
        None
    }

    /// Acquires the lock if it is free, and the others that the attempt names until one is not; returns `None` if the
    /// first is not. The acquisition counts once at least that number of replicas have acknowledged it.
    ///
    /// If it fails or is dropped, the engine releases what it may have acquired, or leaves that to the
    /// supervisor. If the caller [waits](Attempt::waits), the engine may keep a place in the line for the claim that is
    /// enqueued next.
    fn acquire<'a>(
        &'a self,
        attempt: &'a Attempt,
        supervisor: &'a Arc<dyn ReleaseSupervisor>,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Acquired>>;

    /// Returns `true` if one attempt may name both locks.
    fn in_one_request(&self, _name: &str, _other: &str) -> bool {
        false
    }

    /// Enters the lock's queue, or refreshes the claim's entry. Later grants are delivered to the
    /// [`EventHandler`](crate::engine::event::EventHandler).
    ///
    /// Idempotent: a claim has at most one entry, and repeating the request after a grant returns
    /// [`EnqueueReply::AlreadyHeld`]. No replica has acknowledged a grant.
    /// The server ignores the request once its clock is past `valid_until`.
    fn enqueue<'a>(
        &'a self,
        claim: &'a Claim,
        valid_until: Option<ServerTime>,
        deadline: Instant,
    ) -> EngineFuture<'a, EnqueueReply>;

    /// Leaves the queue, or releases the lock if it was granted meanwhile; returns `true` if it was. With
    /// `in_flight`, an earlier request of the claim may still reach the server, and must not be carried out
    /// after this one.
    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        in_flight: bool,
        deadline: Instant,
    ) -> EngineFuture<'a, bool>;

    /// Called when a poll found a grant whose event was lost: the subscription may be broken.
    fn on_missed_grant(&self) {}

    /// Returns `true` if no other manager can wait for the locks of this engine.
    fn is_alone(&self) -> bool {
        false
    }

    /// Returns `true` if this process hears at present when another one enters the queue of the lock of that name, which a
    /// [recallable](Token::recallable) token of this process holds alone, as
    /// [`EngineEvent::Recalled`](crate::engine::event::EngineEvent::Recalled). Starts what that needs. Must be cheap.
    ///
    /// The event is a hint: it may come twice, before the reply to the acquisition, and after the release. One that is
    /// lost is repeated as long as the other one waits.
    fn hears_recalls(&self, _name: &str) -> bool {
        false
    }

    /// Releases the lock if the claim owns it, and grants it to the first claim in the queue; returns `false`
    /// if the claim does not own it.
    fn release<'a>(&'a self, claim: &'a Claim, deadline: Instant) -> EngineFuture<'a, bool>;

    /// Begins to release the lock, without a task. Returns the release if that is not possible now.
    fn release_in_background(&self, release: BackgroundRelease) -> Result<(), BackgroundRelease> {
        Err(release)
    }

    /// Restores the whole ttl of each lock that its claim still owns. Returns for each claim `true` if it
    /// does, or why that is unknown.
    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<Result<bool, EngineError>>>;

    /// Returns the server and the slot that store a lock. Locks of one shard are best renewed together; a
    /// slow server must not delay the renewals of another.
    fn shard_of(&self, _name: &str) -> Shard {
        Shard { server: 0, slot: 0 }
    }

    /// Returns the address of the node that stores a lock, if there are several nodes.
    fn node_of(&self, _name: &str) -> Option<Arc<str>> {
        None
    }

    /// Returns a number greater than all before it, or `None` if the claim does not own the lock.
    fn fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<u64>>;

    /// Makes all later numbers of the lock's counter greater than `token`; returns `false` if the claim does not
    /// own the lock. Needed only where locks have different counters.
    fn raise_fencing_token<'a>(
        &'a self,
        _claim: &'a Claim,
        _token: u64,
        _deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        let words = "the locks of several slots of a quorum have no common fencing token";
        let error = EngineError::new(EngineErrorKind::Rejected, words);
        Box::pin(std::future::ready(Err(error)))
    }

    /// Returns the statement that proves these claims within a transaction, or `None` if one does not own its lock.
    #[cfg(feature = "postgres")]
    fn prove<'a>(
        &'a self,
        _claims: &'a [Claim],
        _deadline: Instant,
    ) -> EngineFuture<'a, Option<TransactionProof>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Returns the reason if a transaction cannot prove the locks of this engine.
    #[cfg(feature = "postgres")]
    fn refuses_proof(&self) -> Option<&'static str> {
        Some(
            "only a lock in PostgreSQL (`postgres://`) can be proven in a transaction; use a fencing token",
        )
    }

    /// Turns an exclusive hold into one that shares the lock: the token `to` holds it from then on, no shorter than the
    /// claim would. Returns for how long, or `None` if the claim does not own the lock. Repeating the request with the
    /// same tokens prolongs nothing.
    fn downgrade<'a>(
        &'a self,
        claim: &'a Claim,
        to: Token,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Duration>>;

    /// Returns the lease that a request proves which was sent at `sent`, and after which the token holds its lock
    /// for `duration`. An engine whose locks share a lease of the server returns what is left of that.
    fn lease(&self, _token: Token, sent: Timestamp, duration: Duration) -> Lease {
        Lease::from_request(sent, duration)
    }

    /// Checks that this engine can keep a lock with that key and these options.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`], [`LockError::InvalidOption`] or [`LockError::Unsupported`], with what to do.
    fn validate(&self, _key: &str, _options: &LockOptions) -> Result<(), LockError> {
        Ok(())
    }

    /// Returns the reason if this engine cannot turn an exclusive hold into a shared one.
    fn refuses_downgrade(&self) -> Option<&'static str> {
        None
    }

    /// Inspects the servers for settings that endanger locks of that ttl and number of replicas.
    fn inspect(
        &self,
        _ttl: Duration,
        _replicas: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        Box::pin(std::future::ready(Inspection::default()))
    }

    /// Waits, for a moment, for work that continues after its requests had their replies.
    fn drain(&self) -> EngineFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The server and the slot that store a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Shard {
    /// Identifies the server within the process.
    pub(crate) server: usize,
    pub(crate) slot: u16,
}
