//! Counts what a shutdown waits for.

use crate::util::sync::{AtomicBool, AtomicU32};
use std::sync::atomic::Ordering::SeqCst;
use tokio::sync::Notify;

pub(crate) struct Count {
    running: AtomicU32,
    /// Set by the first [`wait_idle`](Self::wait_idle): before that, an end wakes no task.
    awaited: AtomicBool,
    idle: Notify,
}

impl Count {
    pub(crate) fn new() -> Count {
        Count {
            running: AtomicU32::new(0),
            awaited: AtomicBool::new(false),
            idle: Notify::new(),
        }
    }

    /// Counts one more, until [`end`](Self::end) is called.
    pub(crate) fn begin(&self) {
        self.running.fetch_add(1, SeqCst);
    }

    pub(crate) fn end(&self) {
        let is_idle = self.running.fetch_sub(1, SeqCst) == 1;
        if is_idle && self.awaited.load(SeqCst) {
            self.idle.notify_waiters();
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.running.load(SeqCst) == 0
    }

    /// Waits until nothing is counted.
    pub(crate) async fn wait_idle(&self) {
        self.awaited.store(true, SeqCst);
        loop {
            let idle = self.idle.notified();
            if self.is_idle() {
                return;
            }
            idle.await;
        }
    }
}
