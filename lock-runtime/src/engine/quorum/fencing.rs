//! Fencing tokens, by a second phase.
//!
//! A majority that has the lock says what is greater than all it knows of; the greatest of that is made
//! known to a majority that still has it. The next holder's majority shares a member with that one, and
//! asks it later.

use crate::engine::error::EngineError;
use crate::engine::quorum::members::Members;
use crate::engine::request::Claim;
use std::sync::Arc;
use tokio::time::Instant;

pub(crate) async fn fencing_token(
    members: Arc<Members>,
    claim: Claim,
    until: Instant,
) -> Result<Option<u64>, EngineError> {
    let until = until.min(members.patience(claim.ttl));
    let tokens = members.ask(|member| {
        let (members, claim) = (members.clone(), claim.clone());
        async move { members.all[member].fencing_token(&claim, until).await }
    });
    let mut greatest = 0;
    let held = members.tally(tokens, until, |token| {
        let token = token?;
        greatest = greatest.max(token.unwrap_or_default());
        Ok(token.is_some())
    });
    let held = held.await;
    match held.decided() {
        Some(true) => {}
        Some(false) => return Ok(None),
        None => return Err(held.error(&members, "ours", "not ours")),
    }
    let stored = members.ask(|member| {
        let (members, claim) = (members.clone(), claim.clone());
        async move {
            let member = &members.all[member];
            member.store_fencing_token(&claim, greatest, until).await
        }
    });
    let stored = members.tally(stored, until, |stored| stored).await;
    match stored.decided() {
        Some(stored) => Ok(stored.then_some(greatest)),
        None => Err(stored.error(&members, "stored", "not ours")),
    }
}
