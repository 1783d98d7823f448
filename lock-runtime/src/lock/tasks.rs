//! The background tasks that a shutdown waits for.

use crate::util::io_thread::IoThread;
use crate::util::sync::watch;
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

pub(crate) struct TaskTracker {
    io: IoThread,
    running: Arc<watch::Sender<usize>>,
}

/// A marker that counts as a running task until it is dropped.
pub(crate) struct TrackedTask(Arc<watch::Sender<usize>>);

impl TaskTracker {
    pub(crate) fn new(io: IoThread) -> TaskTracker {
        let (running, _) = watch::channel(0);
        TaskTracker {
            io,
            running: Arc::new(running),
        }
    }

    /// Counts one more running task until the result is dropped.
    pub(crate) fn track(&self) -> TrackedTask {
        self.running.send_modify(|running| *running += 1);
        TrackedTask(self.running.clone())
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
        let mut running = self.running.subscribe();
        // Cannot fail: the sender lives as long as `self`.
        let _ = running.wait_for(|running| *running == 0).await;
    }

    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        *self.running.borrow() == 0
    }
}

impl Drop for TrackedTask {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
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
