//! The fencing token of several keys.

use crate::error::LockError;
use crate::lock::hold::Hold;
use crate::util::join_all::join_all;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Returns one number that is greater than every earlier one, and smaller than every later one, of each key.
///
/// The keys of one slot share a counter. In a cluster, a number is drawn in each slot, and the greatest is then
/// stored in all of them.
pub(crate) async fn common_token(holds: Vec<&Arc<Hold>>) -> Result<u64, LockError> {
    let mut slots = BTreeSet::new();
    let shard = |hold: &Arc<Hold>| hold.context().engine.shard_of(&hold.name).slot;
    let one_per_slot = holds.iter().filter(|hold| slots.insert(shard(hold)));
    let counters: Vec<_> = one_per_slot.copied().collect();
    let drawn = join_all(counters.iter().map(|hold| hold.fencing_token())).await;
    let drawn: Result<Vec<u64>, LockError> = drawn.into_iter().collect();
    let drawn = drawn?;
    let token = drawn.iter().copied().max().unwrap_or_default();
    let behind = counters.iter().zip(drawn);
    let behind = behind.filter(|(_, drawn)| *drawn < token);
    let raised = join_all(behind.map(|(hold, _)| hold.raise_fencing_token(token))).await;
    raised.into_iter().collect::<Result<(), LockError>>()?;
    // The number is this guard's only if all locks were still held when the last answer arrived.
    match holds.iter().find_map(|hold| hold.check_lost()) {
        Some(loss) => Err(loss),
        None => Ok(token),
    }
}
