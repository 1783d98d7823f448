//! Where a claim stands in the members' queues.

use crate::engine::error::{EngineError, Fault};
use crate::engine::member::Look;
use crate::engine::quorum::member_states::Footprint;
use crate::engine::quorum::members::Members;
use crate::engine::request::{ALIVE, Claim};
use crate::util::time::after;
use std::sync::Arc;
use tokio::time::Instant;

pub(crate) struct Place {
    members: Arc<Members>,
    pub(crate) claim: Claim,
    pub(crate) footprint: Footprint,
}

impl Place {
    pub(crate) fn new(members: &Arc<Members>, claim: &Claim) -> Place {
        Place {
            members: members.clone(),
            claim: claim.clone(),
            footprint: Footprint::new(members),
        }
    }

    /// Stands in a member's queue, and sees how the lock stands there.
    pub(crate) async fn look(&self, member: usize, until: Instant) -> Result<Look, EngineError> {
        let Some(mut there) = self.footprint.enter(member).await else {
            return Err(EngineError::new(Fault::Down, "called off"));
        };
        let look = self.members.all[member].look(&self.claim, until).await;
        self.members.note(member, &look);
        *there |= match &look {
            Ok(_) => true,
            Err(error) => error.fault == Fault::Unanswered,
        };
        look
    }

    /// Leaves all queues in which the claim still stands.
    pub(crate) async fn leave(self: Arc<Self>) {
        self.footprint.close();
        let mut left = self.members.ask(|member| {
            let place = self.clone();
            async move {
                if *place.footprint.leave(member).await {
                    place.leave_queue(member).await;
                }
            }
        });
        while left.recv().await.is_some() {}
    }

    async fn leave_queue(&self, member: usize) {
        let leave = || {
            let patience = self.members.patience(self.claim.ttl);
            self.members.all[member].leave(&self.claim, patience)
        };
        // Longer than this it is not taken for alive.
        let left = self.members.persist(after(ALIVE), leave, |_| {}).await;
        drop(left);
    }
}
