//! The background tasks that a shutdown waits for.

use crate::util::io_thread::IoThread;
use crate::util::sync::{Mutex, MutexGuard};
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::Notify;

pub(crate) struct TaskTracker {
    io: IoThread,
    count: Arc<Count>,
}

#[derive(Default)]
struct Count {
    running: Mutex<usize>,
    idle: Notify,
}

/// A marker that counts as a running task until it is dropped.
struct TrackedTask(Arc<Count>);

impl TaskTracker {
    pub(crate) fn new(io: IoThread) -> TaskTracker {
        TaskTracker {
            io,
            count: Arc::default(),
        }
    }

    /// Counts one more running task, until [`end`](Self::end) is called.
    pub(crate) fn begin(&self) {
        *self.count.running() += 1;
    }

    /// Ends the count of a task.
    pub(crate) fn end(&self) {
        self.count.end();
    }

    /// Counts one more running task until the result is dropped.
    fn track(&self) -> TrackedTask {
        self.begin();
        TrackedTask(self.count.clone())
    }

    /// Runs a counted task on the I/O thread.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.io.spawn_detached(Tracked {
            work,
            task: Some(self.track()),
        });
    }

    /// Waits until no task runs.
    pub(crate) async fn wait_idle(&self) {
        loop {
            let idle = self.count.idle.notified();
            if *self.count.running() == 0 {
                return;
            }
            idle.await;
        }
    }

    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        *self.count.running() == 0
    }
}

impl Count {
    fn end(&self) {
        let mut running = self.running();
        *running -= 1;
        let is_idle = *running == 0;
        drop(running);
        if is_idle {
            self.idle.notify_waiters();
        }
    }

    fn running(&self) -> MutexGuard<'_, usize> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TrackedTask {
    fn drop(&mut self) {
        self.0.end();
    }
}

pin_project! {
    struct Tracked<F> {
        #[pin]
        work: F,
        task: Option<TrackedTask>,
    }
}

impl<F: Future<Output = ()>> Future for Tracked<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let done = this.work.poll(context);
        if done.is_ready() {
            *this.task = None;
        }
        done
    }
}
