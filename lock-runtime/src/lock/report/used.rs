//! Wakes a task that sleeps while no lock is used.

use crate::util::time::{deadline_in, timeout_at};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) struct Used {
    /// A lock was used since the task has last looked.
    is_used: AtomicBool,
    wake: Notify,
}

impl Used {
    /// Without a task, nothing is recorded.
    pub(crate) fn new(has_task: bool) -> Used {
        Used {
            is_used: AtomicBool::new(!has_task),
            wake: Notify::new(),
        }
    }

    /// Records that a lock is acquired or waited for.
    pub(crate) fn record(&self) {
        if !self.get() && !self.is_used.swap(true, Ordering::Relaxed) {
            self.wake();
        }
    }

    pub(crate) fn get(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Records that the task looks. Returns `true` if a lock was used since it has last looked.
    pub(crate) fn take(&self) -> bool {
        self.is_used.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits for the first use since the task has looked, until that instant, or until the task is woken.
    pub(crate) async fn wait_until(&self, due: Option<Instant>) {
        let due = due.unwrap_or_else(|| deadline_in(Duration::MAX));
        let _ = timeout_at(due, self.wake.notified()).await;
    }
}
