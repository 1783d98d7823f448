//! The background tasks that a shutdown waits for. The end of a thread waits for the releases among them.

use crate::lock::count::Count;
use crate::util::io_thread::IoThread;
use crate::util::thread_end;
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

pub(crate) struct TaskTracker {
    io: IoThread,
    running: Arc<Count>,
}

impl TaskTracker {
    pub(crate) fn new(io: IoThread) -> TaskTracker {
        TaskTracker {
            io,
            running: Arc::new(Count::new()),
        }
    }

    /// Counts one more release, until [`end`](Self::end) is called.
    pub(crate) fn begin(&self) {
        self.running.begin();
        thread_end::begin();
    }

    /// Ends the count of a release.
    pub(crate) fn end(&self) {
        self.running.end();
        thread_end::end();
    }

    /// Runs a counted release on the I/O thread.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.begin();
        self.resume(work);
    }

    /// Continues a release that is counted already on the I/O thread.
    pub(crate) fn resume(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.run(work, true);
    }

    /// Runs a counted task on the I/O thread for which no thread waits at its end.
    pub(crate) fn spawn_wait(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.running.begin();
        self.run(work, false);
    }

    /// Waits until no task runs.
    pub(crate) async fn wait_idle(&self) {
        self.running.wait_idle().await;
    }

    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_idle()
    }

    fn run(&self, work: impl Future<Output = ()> + Send + 'static, is_release: bool) {
        self.io.spawn_detached(Tracked {
            work,
            task: Some(TrackedTask {
                running: self.running.clone(),
                is_release,
            }),
        });
    }
}

/// A marker that counts as a running task until it is dropped.
struct TrackedTask {
    running: Arc<Count>,
    is_release: bool,
}

impl Drop for TrackedTask {
    fn drop(&mut self) {
        self.running.end();
        if self.is_release {
            thread_end::end();
        }
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
