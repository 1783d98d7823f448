//! The parts of a manager that its holds use.

use crate::engine::background_release::ReleaseSupervisor;
use crate::lock::context::Context;
use crate::lock::release::Releaser;
use crate::lock::watchdog::Watchdog;
use crate::lock::watchdog::renewable::Renewable;
use std::sync::Arc;

/// State shared by a manager and its holds, with the table of the holds. Dropping the last of them ends the
/// watchdog.
pub(crate) struct Shared<T: ?Sized> {
    pub(crate) context: Arc<Context>,
    pub(crate) releaser: Arc<Releaser>,
    /// The releaser, as engines know it.
    pub(crate) supervisor: Arc<dyn ReleaseSupervisor>,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) table: T,
}

impl<T: ?Sized + Send + Sync + 'static> Shared<T> {
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

impl<T: ?Sized> Drop for Shared<T> {
    fn drop(&mut self) {
        self.watchdog.close();
        self.context.reporter.close();
    }
}
