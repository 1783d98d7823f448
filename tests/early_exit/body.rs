//! Bodies that record their steps.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use lock_runtime::{LockError, LockGuard, LockManager, distributed_lock};
use tokio::sync::watch::Receiver;

use super::lost_leases::TTL;
use lock_test_support::time::millis;

/// A body that takes steps checks its lease itself; a body that awaits must be canceled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Body {
    Walks,
    Stands,
}

#[derive(Clone, Default)]
pub struct Journal(Arc<Mutex<Notes>>);

#[derive(Clone, Copy, Default)]
pub struct Notes {
    pub last_step: Option<Instant>,
    /// The deadline of the lease, as the guard reported it at that step.
    pub deadline: Option<Instant>,
    pub dropped: Option<Instant>,
}

impl Journal {
    pub fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap()
    }

    fn step(&self, lock: &LockGuard) {
        let now = Instant::now();
        let mut notes = self.notes();
        notes.last_step = Some(now);
        // Never too late: the time is taken before the guard is queried.
        if lock.is_valid() {
            notes.deadline = Some(now + lock.remaining());
        }
    }
}

/// A value that a body owns.
struct Belongings(Journal);

impl Drop for Belongings {
    fn drop(&mut self) {
        self.0.notes().dropped = Some(Instant::now());
    }
}

impl Body {
    pub const ALL: [Self; 2] = [Self::Walks, Self::Stands];

    /// Holds the lock until `over` is true.
    pub async fn hold(
        self,
        locks: LockManager,
        key: String,
        journal: Journal,
        over: Receiver<bool>,
    ) -> Result<(), LockError> {
        match self {
            Self::Walks => walk(locks, key, journal, over).await,
            Self::Stands => stand(locks, key, journal, over).await,
        }
    }
}

#[distributed_lock(key = "<key>", ttl = "1500ms", guard = lock, manager = locks)]
async fn walk(
    locks: LockManager,
    key: String,
    journal: Journal,
    over: Receiver<bool>,
) -> Result<(), LockError> {
    let _belongings = Belongings(journal.clone());
    while !*over.borrow() {
        journal.step(lock);
        tokio::time::sleep(millis(5)).await;
    }
    Ok(())
}

async fn stand(
    locks: LockManager,
    key: String,
    journal: Journal,
    mut over: Receiver<bool>,
) -> Result<(), LockError> {
    let run = locks.lock(key).ttl(TTL).run(async |lock| {
        let _belongings = Belongings(journal.clone());
        journal.step(lock);
        let _ = over.wait_for(|over| *over).await;
    });
    run.await
}
