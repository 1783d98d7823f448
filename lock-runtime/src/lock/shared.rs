//! The parts of a manager that its holds use.

use crate::engine::background_release::ReleaseSupervisor;
use crate::engine::token::Token;
use crate::lock::context::Context;
use crate::lock::lost_holds::LostHolds;
use crate::lock::pending_asks::PendingAsks;
use crate::lock::release::Releaser;
use crate::lock::retained_locks::RetainedLocks;
use crate::lock::watchdog::Watchdog;
use crate::lock::watchdog::renewable::Renewable;
use std::sync::Arc;

/// State shared by a manager and its holds. Dropping the last of them ends the watchdog.
pub(crate) struct Shared {
    pub(crate) context: Arc<Context>,
    pub(crate) releaser: Arc<Releaser>,
    /// The releaser, as engines know it.
    pub(crate) supervisor: Arc<dyn ReleaseSupervisor>,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) observer: Arc<dyn HoldObserver>,
    pub(crate) lost: LostHolds,
    pub(crate) retained: RetainedLocks,
    pub(crate) asks: PendingAsks,
}

/// An observer that is notified when this process acquires a lock, and when it loses or releases it.
pub(crate) trait HoldObserver: Send + Sync {
    /// Returns `true` if another process has recalled the lock already.
    fn on_held(&self, name: &Arc<str>, token: Token) -> bool;

    fn on_vacated(&self, name: &Arc<str>, token: Token);

    /// The time is over for which this process may keep the lock.
    fn on_keeping_over(&self, name: &Arc<str>, token: Token);
}

impl Shared {
    /// Identifies the manager within the process.
    pub(crate) fn manager(&self) -> usize {
        Arc::as_ptr(&self.context).addr()
    }

    /// Renews all locks at once, in the background.
    pub(crate) fn renew_all(self: &Arc<Self>) {
        let this = self.clone();
        self.context.io.spawn_detached(async move {
            this.each_hold(Renewable::renew_now).await;
        });
    }

    /// Visits all holds, without blocking others for long.
    pub(crate) async fn each_hold(&self, mut visit: impl FnMut(Arc<dyn Renewable>)) {
        let mut after = None;
        while let Some((last, holds)) = self.watchdog.portion(after) {
            holds.into_iter().for_each(&mut visit);
            after = Some(last);
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.watchdog.close();
        self.context.reporter.close();
    }
}
