//! A guard that checks the invariants of its lock.

use crate::api::guard::LockGuard;
use crate::limit::Limit;
use crate::lock::handoff::HoldGuard;
use crate::lock::local_queue::LocalQueues;
use crate::tests::shuttle::explore::pause;
use crate::tests::shuttle::grant_log::GrantLog;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) struct CheckedGuard {
    guard: Option<LockGuard>,
    queues: Arc<LocalQueues<HoldGuard>>,
    log: Arc<GrantLog>,
    /// A check has found the lease ended.
    over: AtomicBool,
}

impl CheckedGuard {
    pub(super) fn new(
        guard: LockGuard,
        queues: Arc<LocalQueues<HoldGuard>>,
        log: Arc<GrantLog>,
    ) -> CheckedGuard {
        let mut holders = log.holders.lock().unwrap();
        let again = holders.iter().any(|held| Arc::ptr_eq(held, guard.hold()));
        let joins = guard.hold().limit() == Limit::UNLIMITED;
        assert!(!again || joins, "a hold has two guards");
        holders.push(guard.hold().clone());
        drop(holders);
        let guard = Some(guard);
        let over = AtomicBool::new(false);
        let held = CheckedGuard {
            guard,
            queues,
            log,
            over,
        };
        held.check();
        held
    }

    pub(super) fn guard(&self) -> &LockGuard {
        self.guard.as_ref().unwrap()
    }

    /// Checks that no more holds of the lock are valid than the limit of this one, and that an ended lease
    /// stays ended.
    pub(super) fn check(&self) {
        let mine = self.guard().hold();
        let over = mine.remaining().is_zero();
        let before = self.over.fetch_or(over, Ordering::SeqCst);
        assert!(over || !before, "a lease continues after its end");
        let holders = self.log.holders.lock().unwrap().clone();
        let mut others: Vec<_> = holders
            .iter()
            .filter(|other| !Arc::ptr_eq(mine, other) && other.name == mine.name)
            .filter(|other| !other.remaining().is_zero())
            .map(Arc::as_ptr)
            .collect();
        others.sort_unstable();
        others.dedup();
        let fits = others.is_empty() || mine.limit().fits(others.len(), Limit::UNLIMITED);
        assert!(
            fits || mine.remaining().is_zero(),
            "the lock has too many holders"
        );
        let known = self.queues.is_held_with(&mine.name, mine.claim().token);
        assert!(
            known || mine.remaining().is_zero(),
            "the local queue has no holder"
        );
    }

    /// Works under the lock for a moment.
    pub(super) async fn work(&self) {
        self.check();
        pause().await;
        self.check();
    }

    /// Drops the guard.
    pub(super) fn end(self) {
        drop(self.unwatched());
    }

    pub(super) fn unwatched(mut self) -> LockGuard {
        self.leave_log();
        self.guard.take().unwrap()
    }

    fn leave_log(&self) {
        if let Some(guard) = &self.guard {
            let mut holders = self.log.holders.lock().unwrap();
            let mine = holders
                .iter()
                .position(|held| Arc::ptr_eq(held, guard.hold()));
            if let Some(mine) = mine {
                holders.swap_remove(mine);
            }
        }
    }
}

impl Drop for CheckedGuard {
    fn drop(&mut self) {
        self.leave_log();
    }
}
