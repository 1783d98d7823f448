//! Counts what a shutdown waits for, and a main thread at its end.

use crate::util::sync::{AtomicBool, AtomicU32};
use crate::util::thread_end::{self, PendingWork, Use};
use std::ops::Deref;
use std::sync::Arc;
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
        if !is_idle {
            return;
        }
        if self.awaited.load(SeqCst) {
            self.idle.notify_waiters();
        }
        thread_end::progress();
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

impl Use for Count {
    fn is_over(&self) -> bool {
        self.is_idle()
    }
}

/// Counts one more, until it is dropped.
pub(crate) struct Counted<C: Deref<Target = Count>>(C);

/// Does the same for something that is owed to a server.
pub(crate) struct Owed {
    _counted: Counted<Arc<Count>>,
    _pending: PendingWork,
}

impl<C: Deref<Target = Count>> Counted<C> {
    pub(crate) fn begin(count: C) -> Counted<C> {
        count.begin();
        Counted(count)
    }
}

impl Owed {
    /// This thread waits for it at its end.
    pub(crate) fn begin(count: &Arc<Count>) -> Owed {
        Owed {
            _counted: Counted::begin(count.clone()),
            _pending: PendingWork::new(),
        }
    }
}

impl<C: Deref<Target = Count>> Drop for Counted<C> {
    fn drop(&mut self) {
        self.0.end();
    }
}
