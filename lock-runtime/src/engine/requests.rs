//! What is asked of engines, by a round trip each: one signature for each request.

use crate::engine::answers::declare;
// The macros that implement the traits need these, too.
pub(crate) use crate::engine::background_release::ReleaseSupervisor;
pub(crate) use crate::engine::error::{EngineError, EngineErrorKind};
pub(crate) use crate::engine::operations::{Reading, StoredReport, Taken};
pub(crate) use crate::engine::recall::Recall;
pub(crate) use crate::engine::request::{
    Acquired, Attempt, Claim, EngineFuture, EnqueueReply, ServerTime,
};
pub(crate) use crate::engine::token::Token;
pub(crate) use crate::engine::view::View;
pub(crate) use crate::process::ProcessId;
pub(crate) use std::sync::Arc;
pub(crate) use std::time::Duration;
pub(crate) use tokio::time::Instant;

declare! {
    ($ of crate::engine::requests)
    /// What calls ask of an engine.
    ///
    /// A request that fails with [`EngineErrorKind::Indeterminate`](crate::engine::error::EngineErrorKind)
    /// may have been carried out. Dropping the future of a request does not recall the request.
    trait Requests, implemented by answer_requests and request;

    /// Acquires the lock if it is free, and the others that the attempt names until one is not; returns
    /// `None` if the first is not. The acquisition counts once at least that number of replicas have
    /// acknowledged it.
    ///
    /// If it fails or is dropped, the engine releases what it may have acquired, or leaves that to the
    /// supervisor. If the caller [waits](Attempt::waits), the engine may reserve a place in the line of a
    /// lock that is not free: the claim stays there until it is enqueued or canceled, and no event concerns
    /// it before.
    fn acquire<'a>(attempt: &'a Attempt, supervisor: &'a Arc<dyn ReleaseSupervisor>; deadline: Instant)
        -> Option<Acquired>;

    /// Enters the lock's queue, or refreshes the claim's entry. Later grants are delivered to the
    /// [`EventHandler`](crate::engine::event::EventHandler).
    ///
    /// Idempotent: a claim has at most one entry, and repeating the request after a grant returns
    /// [`EnqueueReply::AlreadyHeld`]. No replica has acknowledged a grant.
    /// The server ignores the request once its clock is past `valid_until`.
    fn enqueue<'a>(claim: &'a Claim, valid_until: Option<ServerTime>; deadline: Instant) -> EnqueueReply;

    /// Leaves the queue, or releases the lock if it was granted meanwhile; returns `true` if it was. With
    /// `in_flight`, an earlier request of the claim may still reach the server, and must not be carried out
    /// after this one.
    fn cancel<'a>(claim: &'a Claim, in_flight: bool; deadline: Instant) -> bool;

    /// Releases the lock if the claim owns it, and grants it to the first claim in the queue; returns `false`
    /// if the claim does not own it.
    fn release<'a>(claim: &'a Claim; deadline: Instant) -> bool;

    /// Restores the whole ttl of each lock that its claim still owns. Returns for each claim `true` if it
    /// does, or why that is unknown.
    fn renew<'a>(claims: &'a [Claim]; deadline: Instant) -> Vec<Result<bool, EngineError>>;

    /// Returns a number greater than all before it, or `None` if the claim does not own the lock.
    fn fencing_token<'a>(claim: &'a Claim; deadline: Instant) -> Option<u64>;

    /// Makes all later numbers of the lock's counter greater than `token`; returns `false` if the claim does
    /// not own the lock. Needed only where locks have different counters.
    fn raise_fencing_token<'a>(claim: &'a Claim, token: u64; deadline: Instant) -> bool
        = Err(EngineError::new(
            EngineErrorKind::Rejected,
            "the locks of several slots of a quorum have no common fencing token",
        ));

    /// Returns the statement that proves these claims within a transaction, or `None` if one does not own its
    /// lock.
    #[cfg(any(feature = "postgres", feature = "store"))]
    fn prove<'a>(claims: &'a [Claim]; deadline: Instant) -> Option<crate::transaction_proof::TransactionProof>;

    /// Turns an exclusive hold into one that shares the lock: the token `to` holds it from then on, no
    /// shorter than the claim would. Returns for how long, or `None` if the claim does not own the lock.
    /// Repeating the request with the same tokens prolongs nothing.
    fn downgrade<'a>(claim: &'a Claim, to: Token; deadline: Instant) -> Option<Duration>;

    /// Waits, for a moment, for work that continues after its requests had their replies.
    fn drain<'a>(; deadline: Instant) -> () = Ok(());
}

declare! {
    ($ of crate::engine::requests)
    /// The operations of an engine, and of a quorum's member.
    trait Operations, implemented by answer_operations and operation;

    /// Asks the servers whether they would grant a lock now, each by a round trip: a majority of a quorum's
    /// members, and every master of a cluster. Nothing is left on the servers.
    fn ping<'a>(; deadline: Instant) -> ();

    /// Looks at who holds each lock, and at the first of those that wait for it, `most` of them at the most,
    /// in the order of the names, of which there are few. Changes nothing. One request does for those that a
    /// server keeps, in a cluster for those of a slot; a quorum's members are asked all; in ZooKeeper each
    /// lock takes two or three.
    fn views<'a>(names: &'a [Arc<str>], most: usize; deadline: Instant) -> Vec<View>;

    /// Returns the names, with that prefix, of locks that are held or waited for, `most` of them at the most.
    /// A name may be among them although its last lease has just ended. Changes nothing.
    fn names<'a>(prefix: &'a str, most: usize; reading: Reading) -> Vec<Arc<str>>;

    /// Stores what a process reports in place of what it reported before. It vanishes
    /// [`REPORT_TTL`](crate::engine::operations::REPORT_TTL) later, or with the session of the engine, which
    /// then stores it again. It has no NUL.
    fn report<'a>(process: ProcessId, report: Arc<str>; deadline: Instant) -> ();

    /// Returns what these processes, or all, have reported.
    fn reports<'a>(of: Option<&'a [ProcessId]>; reading: Reading) -> Vec<StoredReport>;

    /// Sends a text to all processes that [listen](crate::engine::traits::Engine::listen), as
    /// [`EngineEvent::Asked`](crate::engine::event::EngineEvent), the own one too. One may receive it several
    /// times, and those whose connection is broken do not. It has no NUL.
    fn ask<'a>(text: &'a str; deadline: Instant) -> ();

    /// Recalls locks from a process that may keep them, which receives each, if it
    /// [hears](crate::engine::traits::Engine::hears_recalls) of it, as
    /// [`EngineEvent::Recalled`](crate::engine::event::EngineEvent), maybe several times. An engine without
    /// recalls does nothing.
    fn recall<'a>(from: ProcessId, recalls: &'a [Recall]; deadline: Instant) -> () = Ok(());

    /// Takes the lock from the holder with that token, for good: no request of that token that comes later
    /// acquires it again, and the first in the queue may enter. Draws a fencing token that is greater than
    /// all that the holder has, and not less than `at_least`; all that are drawn later are greater.
    ///
    /// Idempotent. `token` is compared with what [`views`](Self::views) returned, whoever has made it.
    fn take<'a>(name: &'a str, token: &'a str, at_least: u64; deadline: Instant) -> Taken;
}
