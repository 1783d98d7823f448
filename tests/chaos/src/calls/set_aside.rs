//! Calls that are polled until they wait, and then no more for a while.

use std::time::Duration;

use lock_runtime::{Lock, LockError, LockGuard};

use super::ASIDE;
use super::body::Call;
use crate::journal::EventKind;
use lock_test_support::rng::Rng;
use lock_test_support::time::millis;

/// The longest time for which the call is polled at first.
const BEGINS: Duration = millis(40);

/// Acquires the lock; if it has to be waited for, then only after some time. Returns `None` if the call was
/// dropped after that.
pub async fn acquire(
    call: &Call,
    lock: Lock,
    rng: &mut Rng,
) -> Result<Option<LockGuard>, LockError> {
    let mut up_to = |most: Duration| Duration::from_micros(rng.below(most.as_micros() as u64));
    let (begins, aside) = (up_to(BEGINS), up_to(ASIDE));
    let mut acquiring = Box::pin(lock.acquire());
    if let Ok(acquired) = tokio::time::timeout(begins, &mut acquiring).await {
        return acquired.map(Some);
    }
    call.journal.write(call.number, EventKind::SetAside);
    tokio::time::sleep(aside).await;
    call.journal.write(call.number, EventKind::TakenUp);
    match rng.one_in(3) {
        true => Ok(None),
        false => acquiring.await.map(Some),
    }
}
