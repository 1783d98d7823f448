//! What a quorum asks of its members: one signature for each request.

use crate::engine::answers::declare;
// The macro that implements the trait needs these, too.
pub(crate) use crate::engine::redis::vote::{QueueObservation, Vote, VoteQueue};
pub(crate) use crate::engine::requests::{Claim, EngineError, EngineFuture, Instant};

declare! {
    ($ of crate::engine::redis::quorum::requests)
    /// What a quorum asks of each of its members, the independent deployments.
    trait VoteRequests, implemented by answer_vote_requests and vote_request;

    /// Waits until the first attempt to connect has ended.
    fn connected<'a>(; deadline: Instant) -> () = Ok(());

    /// Acquires the lock at this member, if the holders there allow it.
    fn vote<'a>(claim: &'a Claim, queue: VoteQueue; deadline: Instant) -> Vote;

    /// Enters the member's queue, or stays in it, and acquires nothing.
    fn observe<'a>(entry: &'a Claim; deadline: Instant) -> QueueObservation;

    /// Leaves the member's queue.
    fn leave_queue<'a>(entry: &'a Claim; deadline: Instant) -> ();

    /// Releases the lock at this member; returns `false` if the claim did not own it there. Notifies the
    /// first waiter if the claim held the lock; if it never had a majority, nothing has changed for the
    /// waiters.
    fn withdraw<'a>(claim: &'a Claim, held: bool; deadline: Instant) -> bool;

    /// Renews each lock that its claim still owns at this member.
    fn renew<'a>(claims: &'a [Claim]; deadline: Instant) -> Vec<Result<bool, EngineError>>;

    /// Returns a number greater than any that this member has returned or stored before, or `None` if the
    /// claim does not own the lock there.
    fn fencing_token<'a>(claim: &'a Claim; deadline: Instant) -> Option<u64>;

    /// Makes all later numbers of this member greater than `token`; returns `false` if the claim does not own
    /// the lock there.
    fn raise_fencing_token<'a>(claim: &'a Claim, token: u64; deadline: Instant) -> bool;
}
