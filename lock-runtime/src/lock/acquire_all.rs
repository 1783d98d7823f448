//! Acquires several locks under one bound, in an order that all clients share.

use crate::error::LockError;
use crate::lock::acquire::Acquire;
use crate::lock::handoff::HoldGuard;
use crate::util::join_all::join_all;
use crate::util::time::deadline_in;

/// Returns the calls in the order in which every client acquires locks, without those for a lock that is named
/// twice: in a cluster by slot, then by name. A call that waits for a lock then holds only earlier ones, so no
/// two calls wait for each other.
pub(crate) fn in_order(mut calls: Vec<Acquire>) -> Vec<Acquire> {
    let slot = |call: &Acquire| call.inner.context.engine.shard_of(&call.name).slot;
    calls.sort_by(|one, other| {
        let by_slot = slot(one).cmp(&slot(other));
        by_slot.then_with(|| one.name.cmp(&other.name))
    });
    calls.dedup_by(|one, other| one.name == other.name);
    calls
}

/// Acquires all locks, one after the other. If one of them is not acquired, the others are released.
pub(crate) async fn acquire_all(calls: &[Acquire]) -> Result<Vec<HoldGuard>, LockError> {
    for call in calls {
        call.check_nesting()?;
    }
    let Some(first) = calls.first() else {
        return Ok(Vec::new());
    };
    let deadline = deadline_in(first.wait);
    let mut guards = Vec::with_capacity(calls.len());
    for call in calls {
        match call.acquire_until(deadline).await {
            Ok(guard) => guards.push(guard),
            Err(error) => {
                if first.wait.is_zero() {
                    // The next try finds them free.
                    join_all(guards.iter().map(HoldGuard::release_or_hand_off)).await;
                }
                return Err(error);
            }
        }
    }
    Ok(guards)
}
