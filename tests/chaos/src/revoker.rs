//! Revokes a lock, and records what became of it.

use std::future::IntoFuture;
use std::sync::Arc;

use lock_runtime::{ClaimInfo, LockManager, Mode, Revocation};

use crate::clock;
use crate::journal::{Answer, EventKind, Journal};
use crate::revocation::Demand;
use lock_test_support::rng::Rng;
use lock_test_support::time::millis;

/// How often a holder is looked for, and one of another process.
const TRIES: (usize, usize) = (20, 400);

/// Revokes the lock from one of its holders or all of them, named in any way; does nothing if no one holds
/// it, or if the servers cannot be asked.
pub async fn revoke(locks: &LockManager, journal: &Arc<Journal>, demand: &Demand) {
    let mut rng = Rng::with(demand.seed);
    let key = format!("door:{}", demand.key);
    let Some((seen, holders)) = holders(locks, &key, demand.elsewhere).await else {
        return;
    };
    let grace = millis(demand.grace_ms);
    let revoke = locks.revoke(&*key).reason("chaos").grace(grace);
    // A member of a quorum may have one that holds nothing.
    let is_owner = |votes: (usize, usize)| votes.0 * 2 > votes.1;
    let owners = holders.iter();
    let owners = owners.filter(|holder| holder.votes().is_none_or(is_owner));
    let owners: Vec<&ClaimInfo> = owners.collect();
    let way = if demand.elsewhere { 2 } else { rng.below(3) };
    let one = owners.get(rng.below(owners.len().max(1) as u64) as usize);
    let one = one.copied().filter(|_| way > 0);
    let revoke = match one {
        Some(holder) if way == 1 => revoke.holder(holder),
        Some(holder) => revoke.token(holder.token()),
        None if owners.len() > 1 => revoke.all(),
        None => revoke,
    };
    let revoke = if demand.force { revoke.force() } else { revoke };
    let since = clock::reading();
    let revokes = EventKind::Revokes {
        key: demand.key,
        token: one.map(|holder| holder.token().to_owned()),
        process: one.and_then(ClaimInfo::process).map(|it| it.to_string()),
        // A report names a body that may have ended by then.
        exclusive: one.is_some_and(|holder| holder.mode() == Mode::Exclusive && way == 2),
        force: demand.force,
        grace: grace.as_nanos() as u64,
        seen,
    };
    journal.write_at(since, 0, revokes);
    let (answer, number) = match revoke.into_future().await {
        Ok(Revocation::NotHeld) => (Answer::NotHeld, None),
        Ok(Revocation::Stopped { .. }) => (Answer::Stopped, None),
        Ok(Revocation::Unconfirmed { .. }) => (Answer::Unconfirmed, None),
        Ok(Revocation::NotStopped { .. }) => (Answer::NotStopped, None),
        Ok(
            Revocation::Taken { fencing_token, .. }
            | Revocation::InTransaction { fencing_token, .. },
        ) => (Answer::Taken, Some(fencing_token)),
        Ok(other) => (Answer::Failed(format!("{other:?}")), None),
        Err(error) => (Answer::Failed(error.to_string()), None),
    };
    let revoked = EventKind::Revoked {
        since: since.0,
        answer,
        number,
    };
    journal.write(0, revoked);
}

/// Returns the holders of the lock, or those in other processes, once there are any, and when it looked.
async fn holders(locks: &LockManager, key: &str, elsewhere: bool) -> Option<(u64, Vec<ClaimInfo>)> {
    let is_meant = |it: &&ClaimInfo| !elsewhere || it.process() != Some(locks.process_id());
    for _ in 0..if elsewhere { TRIES.1 } else { TRIES.0 } {
        let (seen, _) = clock::reading();
        let found = locks.inspect(key).await.ok()?;
        let meant: Vec<_> = found.holders().iter().filter(is_meant).cloned().collect();
        if !meant.is_empty() {
            return Some((seen, meant));
        }
        tokio::time::sleep(millis(5)).await;
    }
    None
}
