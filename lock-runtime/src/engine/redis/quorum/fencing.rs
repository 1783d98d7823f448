//! Fencing tokens, in two phases.
//!
//! Each member of a majority that holds the lock returns a number greater than all that it knows. The
//! greatest of these is stored at a majority that still holds the lock. The next holder's majority shares a
//! member with that one, which is asked later and therefore returns a greater number.

use crate::engine::error::EngineError;
use crate::engine::redis::quorum::QuorumEngine;
use crate::engine::redis::quorum::members::Members;
use crate::engine::request::Claim;
use std::sync::Arc;
use tokio::time::Instant;

impl QuorumEngine {
    pub(crate) async fn fencing_token(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<Option<u64>, EngineError> {
        let token = draw(self.members.clone(), claim.clone(), deadline);
        self.members.run_on_io_thread(token).await
    }
}

async fn draw(
    members: Arc<Members>,
    claim: Claim,
    deadline: Instant,
) -> Result<Option<u64>, EngineError> {
    let deadline = deadline.min(members.request_deadline(claim.ttl));
    let tokens = members.ask_all(|member| {
        let (members, claim) = (members.clone(), claim.clone());
        async move { members.list[member].fencing_token(&claim, deadline).await }
    });
    let mut greatest = 0;
    let held = members.collect(tokens, deadline, |token| {
        let token = token?;
        greatest = greatest.max(token.unwrap_or_default());
        Ok(token.is_some())
    });
    let held = held.await;
    match held.decided() {
        Some(true) => {}
        Some(false) => return Ok(None),
        None => return Err(held.error(&members.list, "ours", "not ours")),
    }
    let stored = members.ask_all(|member| {
        let (members, claim) = (members.clone(), claim.clone());
        async move {
            let member = &members.list[member];
            member.raise_fencing_token(&claim, greatest, deadline).await
        }
    });
    let stored = members.collect(stored, deadline, |stored| stored).await;
    match stored.decided() {
        Some(stored) => Ok(stored.then_some(greatest)),
        None => Err(stored.error(&members.list, "stored", "not ours")),
    }
}
