//! One claim's entries in the members' queues.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::redis::quorum::member_states::MemberStates;
use crate::engine::redis::quorum::members::Members;
use crate::engine::redis::quorum::registry::Registry;
use crate::engine::redis::vote::QueueObservation;
use crate::engine::request::Claim;
use crate::engine::timeouts::WAITER_TTL;
use crate::engine::token::Token;
use crate::util::time::deadline_in;
use std::sync::Arc;
use tokio::time::Instant;

pub(crate) struct QueueEntry {
    members: Arc<Members>,
    pub(crate) claim: Claim,
    pub(crate) states: MemberStates,
}

impl QueueEntry {
    pub(crate) fn new(members: &Arc<Members>, claim: &Claim) -> QueueEntry {
        QueueEntry {
            members: members.clone(),
            claim: claim.clone(),
            states: MemberStates::new(members.count()),
        }
    }

    /// Enters a member's queue, or stays in it, and returns the state of the lock there.
    pub(crate) async fn observe(
        &self,
        member: usize,
        deadline: Instant,
    ) -> Result<QueueObservation, EngineError> {
        let Some(mut may_hold) = self.states.begin_request(member).await else {
            return Err(EngineError::new(
                EngineErrorKind::NotConnected,
                "the wait is over",
            ));
        };
        let observation = self.members.list[member]
            .observe(&self.claim, deadline)
            .await;
        self.members.record_reachability(member, &observation);
        *may_hold |= match &observation {
            Ok(_) => true,
            Err(error) => error.kind == EngineErrorKind::Indeterminate,
        };
        observation
    }

    /// Removes the entry of a claim that no longer waits. The removal continues if the returned future is
    /// dropped.
    pub(crate) fn remove(
        members: &Arc<Members>,
        registry: &Arc<Registry<QueueEntry>>,
        token: Token,
    ) -> impl Future<Output = ()> + Send + use<> {
        members.hints.remove(token);
        let removed = registry.remove(token).map(|entry| {
            let cleanup = registry.begin_cleanup();
            members.io.spawn(async move {
                entry.remove_all().await;
                drop(cleanup);
            })
        });
        async {
            if let Some(removed) = removed {
                let _ = removed.await;
            }
        }
    }

    /// Leaves every queue in which the claim may still wait.
    async fn remove_all(self: Arc<Self>) {
        self.states.close();
        let mut left = self.members.ask_all(|member| {
            let entry = self.clone();
            async move {
                if *entry.states.begin_cleanup(member).await {
                    entry.remove_from(member).await;
                }
            }
        });
        while left.recv().await.is_some() {}
    }

    async fn remove_from(&self, member: usize) {
        let leave = || {
            let deadline = self.members.request_deadline(self.claim.ttl);
            self.members.list[member].leave_queue(&self.claim, deadline)
        };
        // After this time the member drops the entry by itself.
        let left = self
            .members
            .retry(deadline_in(WAITER_TTL), leave, |_| {})
            .await;
        drop(left);
    }
}
