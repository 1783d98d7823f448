//! The state of the server queue, as the task that waits there learned it last.

use crate::engine::error::EngineError;
use crate::error::Holder;
use crate::limit::Limit;
use crate::lock::local_queue::LocalQueues;

impl<T> LocalQueues<T> {
    /// Returns `true` if other processes wait for the lock; `None` if that is unknown.
    pub(crate) fn remote_waiters(&self, name: &str, limit: Limit) -> Option<bool> {
        self.with(name, limit, |queue| queue.remote_waiters)?
    }

    /// Records the server's last reply to the task that waits in its queue.
    pub(crate) fn set_remote_state(
        &self,
        name: &str,
        limit: Limit,
        remote_waiters: Option<bool>,
        last_error: Option<EngineError>,
    ) {
        self.with(name, limit, |queue| {
            queue.remote_waiters = remote_waiters;
            queue.last_error = last_error;
        });
    }

    pub(crate) fn last_error(&self, name: &str, limit: Limit) -> Option<EngineError> {
        self.with(name, limit, |queue| queue.last_error.clone())?
    }

    /// Records who is in the way, as the server reported last.
    pub(crate) fn set_remote_holder(&self, name: &str, limit: Limit, holder: Holder) {
        self.with(name, limit, |queue| queue.remote_holder = holder);
    }
}
