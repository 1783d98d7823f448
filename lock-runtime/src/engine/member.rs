//! The trait of a quorum's members.

use crate::engine::error::EngineError;
use crate::engine::inspection::Inspection;
use crate::engine::operations::Operations;
use crate::engine::request::{Claim, EngineFuture};
use crate::engine::token::Token;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::Instant;

/// One of the independent deployments that make up a quorum.
pub(crate) trait Member: Operations {
    /// Returns the member's address, without secrets.
    fn address(&self) -> &str;

    /// Checks the member's servers for settings that endanger locks with that ttl.
    fn inspect(
        &self,
        _ttl: Duration,
        _replicas: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        Box::pin(std::future::ready(Inspection::default()))
    }

    /// Waits until the first attempt to connect has ended.
    fn connected(&self, _deadline: Instant) -> EngineFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns the lock's slot: locks in the same slot are best renewed together.
    fn slot(&self, _name: &str) -> u16 {
        0
    }

    /// Acquires the lock at this member, if the holders there allow it.
    fn vote<'a>(
        &'a self,
        claim: &'a Claim,
        queue: VoteQueue,
        deadline: Instant,
    ) -> EngineFuture<'a, Vote>;

    /// Enters the member's queue, or stays in it, and acquires nothing.
    fn observe<'a>(
        &'a self,
        entry: &'a Claim,
        deadline: Instant,
    ) -> EngineFuture<'a, QueueObservation>;

    /// Leaves the member's queue.
    fn leave_queue<'a>(&'a self, entry: &'a Claim, deadline: Instant) -> EngineFuture<'a, ()>;

    /// Releases the lock at this member; returns `false` if the claim did not own it there. With `notify`,
    /// the first waiter is notified.
    fn release<'a>(
        &'a self,
        claim: &'a Claim,
        notify: bool,
        deadline: Instant,
    ) -> EngineFuture<'a, bool>;

    /// Renews each lock that its claim still owns at this member.
    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<Result<bool, EngineError>>>;

    /// Returns a number greater than any that this member has returned or stored before, or `None` if the
    /// claim does not own the lock there.
    fn fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<u64>>;

    /// Makes all later numbers of this member greater than `token`; returns `false` if the claim does not own
    /// the lock there.
    fn raise_fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        token: u64,
        deadline: Instant,
    ) -> EngineFuture<'a, bool>;
}

/// What a vote has to do with the member's queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum VoteQueue {
    /// The claim does not wait.
    Newcomer,
    /// The claim waits as this token, which leaves the queue.
    Waits(Token),
    /// A majority stores the claim already, so the queue does not matter.
    Restored,
}

/// A member's reply to the request for a vote.
#[derive(Clone, Debug)]
pub(crate) enum Vote {
    Granted,
    /// Another client holds the lock at this member, for that long.
    Held {
        holder: Box<[u8]>,
        ttl: Duration,
    },
    Failed(EngineError),
}

/// The state of a lock at a member, as a waiter sees it.
#[derive(Clone, Debug)]
pub(crate) struct QueueObservation {
    /// The holder at this member, and the rest of its lease.
    pub(crate) holder: Option<(Box<[u8]>, Duration)>,
    /// The number of waiters ahead of the claim.
    pub(crate) ahead: u64,
    /// `true` if there are other waiters.
    pub(crate) others: bool,
}
