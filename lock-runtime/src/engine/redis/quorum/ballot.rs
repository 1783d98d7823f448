//! A ballot: the votes for one token, from the first request until no member holds the token.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::redis::quorum::member_states::MemberStates;
use crate::engine::redis::quorum::members::Members;
use crate::engine::redis::quorum::queue_entry::QueueEntry;
use crate::engine::redis::quorum::registry::Registry;
use crate::engine::redis::quorum::replies::Replies;
use crate::engine::redis::vote::{Vote, VoteQueue};
use crate::engine::request::Claim;
use crate::engine::timeouts::OUTAGE;
use crate::util::count::Owed;
use crate::util::join_all::join_all;
use crate::util::time::deadline_in;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) struct Ballot {
    pub(crate) members: Arc<Members>,
    registry: Arc<Registry<Ballot>>,
    pub(crate) claim: Claim,
    /// The claim's entries in the members' queues.
    queue_entry: Option<Arc<QueueEntry>>,
    states: MemberStates,
    progress: OnceLock<Arc<watch::Sender<ClearProgress>>>,
}

/// The progress of a withdrawal.
pub(crate) struct ClearProgress {
    /// The members that held the token.
    pub(crate) released: Replies,
    pub(crate) outstanding: usize,
    /// Until none is outstanding.
    cleanup: Option<Owed>,
}

impl Ballot {
    pub(crate) fn open(
        members: &Arc<Members>,
        registry: &Arc<Registry<Ballot>>,
        claim: Claim,
        queue_entry: Option<Arc<QueueEntry>>,
    ) -> Arc<Ballot> {
        let token = claim.token;
        let ballot = Arc::new(Ballot {
            states: MemberStates::new(members.count()),
            members: members.clone(),
            registry: registry.clone(),
            claim,
            queue_entry,
            progress: OnceLock::new(),
        });
        registry.insert(token, ballot.clone());
        ballot
    }

    /// Requests a member's vote. A member that does not reply may hold the token nevertheless.
    pub(crate) async fn request_vote(&self, member: usize, deadline: Instant) -> Vote {
        let entry = self.queue_entry.as_ref();
        let queue = match entry.map(|entry| entry.claim.token) {
            Some(token) => VoteQueue::Waits(token),
            None => VoteQueue::Newcomer,
        };
        self.request_vote_for(member, queue, deadline).await
    }

    /// Asks a member to store a token that a majority stores.
    pub(crate) async fn restore(&self, member: usize, deadline: Instant) -> Vote {
        self.request_vote_for(member, VoteQueue::Restored, deadline)
            .await
    }

    async fn request_vote_for(&self, member: usize, queue: VoteQueue, deadline: Instant) -> Vote {
        let Some(mut may_hold) = self.states.begin_request(member).await else {
            return Vote::Failed(EngineError::new(
                EngineErrorKind::NotConnected,
                "the election is over",
            ));
        };
        // Wait for a queue request that is under way: the vote must remove the entry after it was made, not
        // before.
        let queued = match (&self.queue_entry, queue) {
            (Some(entry), VoteQueue::Waits(_)) => Some(entry.states.begin_cleanup(member).await),
            _ => None,
        };
        let deadline = deadline.min(self.members.request_deadline(self.claim.ttl));
        let reply = self.members.list[member].vote(&self.claim, queue, deadline);
        let reply = reply.await;
        self.members.record_reachability(member, &reply);
        match &reply {
            Ok(Vote::Granted) => {
                *may_hold = true;
                if let Some(mut queued) = queued {
                    *queued = false;
                }
            }
            Err(error) => *may_hold |= error.kind == EngineErrorKind::Indeterminate,
            Ok(_) => {}
        }
        reply.unwrap_or_else(Vote::Failed)
    }

    /// Releases the token at every member that may hold it, and retries until each member has confirmed. With
    /// `notify`, waiters are notified, since the lock was held.
    pub(crate) fn withdraw(self: &Arc<Self>, notify: bool) -> &watch::Sender<ClearProgress> {
        self.states.close();
        self.progress.get_or_init(|| {
            let count = self.members.count();
            let progress = Arc::new(watch::Sender::new(ClearProgress {
                released: Replies::new(count),
                outstanding: count,
                cleanup: Some(self.registry.begin_cleanup()),
            }));
            let (ballot, clearing) = (self.clone(), progress.clone());
            let deadline = deadline_in(self.claim.ttl.max(OUTAGE));
            self.members.io.spawn_detached(async move {
                let withdraw = async |member| {
                    let released = ballot.release_at(member, notify, deadline, &clearing).await;
                    ballot.record_withdrawal(&clearing, member, released);
                };
                join_all((0..count).map(withdraw)).await;
            });
            progress
        })
    }

    async fn release_at(
        &self,
        member: usize,
        notify: bool,
        deadline: Instant,
        progress: &watch::Sender<ClearProgress>,
    ) -> Result<bool, EngineError> {
        let mut may_hold = self.states.begin_cleanup(member).await;
        if !*may_hold {
            return Ok(false);
        }
        let free = || {
            let patience = self.members.request_deadline(self.claim.ttl);
            self.members.list[member].withdraw(&self.claim, notify, patience)
        };
        let repeated = AtomicBool::new(false);
        let note = |error: &EngineError| {
            repeated.fetch_or(error.kind == EngineErrorKind::Indeterminate, Relaxed);
            let failed = Err(error.clone());
            progress.send_if_modified(|progress| {
                progress.released.record(member, failed);
                false
            });
        };
        let released = self.members.retry(deadline, free, note).await?;
        *may_hold = false;
        // An attempt without a reply may have released the token, so that a later one did not find it.
        Ok(released || repeated.into_inner())
    }

    fn record_withdrawal(
        &self,
        progress: &watch::Sender<ClearProgress>,
        member: usize,
        released: Result<bool, EngineError>,
    ) {
        let (mut done, mut cleanup) = (false, None);
        progress.send_if_modified(|progress| {
            let before = progress.released.decided();
            progress.released.record(member, released);
            progress.outstanding -= 1;
            done = progress.outstanding == 0;
            if done {
                cleanup = progress.cleanup.take();
            }
            done || progress.released.decided() != before
        });
        if done {
            self.registry.remove(self.claim.token);
            drop(cleanup);
        }
    }
}
