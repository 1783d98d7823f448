//! What a hold needs of its manager.

use crate::engine::token::Token;
use crate::lock::context::Context;
use crate::lock::release::Releaser;
use crate::lock::watchdog::Watchdog;
use std::sync::Arc;

/// Shared by a manager and its holds. When the last of them is dropped, the watchdog ends.
pub(crate) struct Shared {
    pub(crate) context: Arc<Context>,
    pub(crate) releaser: Arc<Releaser>,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) observer: Arc<dyn HoldObserver>,
}

/// Is notified when this process acquires or loses a lock.
pub(crate) trait HoldObserver: Send + Sync {
    fn on_held(&self, name: &Arc<str>, token: Token);

    fn on_vacated(&self, name: &str, token: Token);
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.watchdog.close();
    }
}
