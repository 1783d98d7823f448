//! The fencing token of several keys.

use crate::error::LockError;
use crate::lock::hold::Hold;
use crate::util::join_all::join_all;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Returns one number that is greater than every earlier one, and smaller than every later one, of each key.
///
/// The keys of one slot share a counter, or each has its own. A number is drawn from each counter. Once the
/// greatest is known, each key must prove that it is still held, in a request that also stores the number in
/// the other counters: a successor of this holder draws its number after that.
pub(crate) async fn common_token(holds: Vec<&Arc<Hold>>) -> Result<u64, LockError> {
    let known = holds.first().and_then(|hold| hold.known_fencing_token());
    if let Some(token) = known
        && holds.iter().all(|hold| hold.known_fencing_token() == known)
    {
        return still_held(&holds).map(|()| token);
    }
    let mut counters = BTreeSet::new();
    let counter = |hold: &Arc<Hold>| {
        let engine = &hold.context().engine;
        let own = engine.counts_alone().then(|| hold.name.clone());
        (engine.shard_of(&hold.name).slot, own)
    };
    let one_per_counter = holds.iter().filter(|hold| counters.insert(counter(hold)));
    let counters: Vec<_> = one_per_counter.copied().collect();
    let drawn = join_all(counters.iter().map(|hold| hold.draw_fencing_token())).await;
    let drawn: Result<Vec<u64>, LockError> = drawn.into_iter().collect();
    let greatest = counters.iter().zip(drawn?).max_by_key(|(_, drawn)| *drawn);
    let Some((drawer, token)) = greatest else {
        return Ok(0);
    };
    let others = holds.iter().filter(|hold| !Arc::ptr_eq(hold, drawer));
    let proven = join_all(
        others.map(async |hold| match counter(hold) == counter(drawer) {
            true => hold.draw_fencing_token().await.map(drop),
            false => hold.raise_fencing_token(token).await,
        }),
    );
    proven
        .await
        .into_iter()
        .collect::<Result<(), LockError>>()?;
    // The number is this guard's only if all locks were still held when the last reply arrived.
    still_held(&holds)?;
    for hold in holds {
        hold.learn_fencing_token(token);
    }
    Ok(token)
}

fn still_held(holds: &[&Arc<Hold>]) -> Result<(), LockError> {
    holds
        .iter()
        .find_map(|hold| hold.check_lost())
        .map_or(Ok(()), Err)
}
