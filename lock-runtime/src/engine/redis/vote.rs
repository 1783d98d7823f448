//! Votes of a quorum's members.

use crate::engine::error::EngineError;
use crate::engine::token::Token;
use std::time::Duration;

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
