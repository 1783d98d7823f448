//! The trait of a quorum's members.

use crate::engine::error::EngineError;
use crate::engine::inspection::Inspection;
use crate::engine::requests::{Operations, VoteRequests};
use crate::engine::token::Token;
use std::pin::Pin;
use std::time::Duration;

/// One of the independent deployments that make up a quorum.
pub(crate) trait Member: VoteRequests + Operations {
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

    /// Returns the lock's slot: locks in the same slot are best renewed together.
    fn slot(&self, _name: &str) -> u16 {
        0
    }

    /// Begins to receive what others ask.
    fn listen(&self) {}
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
