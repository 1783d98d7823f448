//! The background tasks that a shutdown waits for. Threads wait at their ends for the releases among them.

use crate::util::count::{Count, Counted};
use crate::util::io_thread::IoThread;
use crate::util::thread_end::{self, PendingWork};
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
        let running = Arc::new(Count::new());
        thread_end::watch_use(Arc::<Count>::downgrade(&running));
        TaskTracker { io, running }
    }

    /// Counts one more release, until [`end`](Self::end) is called.
    pub(crate) fn begin(&self) {
        self.running.begin();
    }

    /// Ends the count of a release.
    pub(crate) fn end(&self) {
        self.running.end();
    }

    /// Runs a counted release on the I/O thread.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.run(work, Some(PendingWork::new()));
    }

    /// Continues a release that is counted already on the I/O thread.
    pub(crate) fn resume(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
        pending: PendingWork,
    ) {
        self.run(work, Some(pending));
        self.end();
    }

    /// Runs a counted task on the I/O thread for which no thread waits at its end.
    pub(crate) fn spawn_wait(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.run(work, None);
    }

    /// Waits until no task runs.
    pub(crate) async fn wait_idle(&self) {
        self.running.wait_idle().await;
    }

    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_idle()
    }

    fn run(&self, work: impl Future<Output = ()> + Send + 'static, pending: Option<PendingWork>) {
        self.io.spawn_detached(Tracked {
            work,
            counted: Some((Counted::begin(self.running.clone()), pending)),
        });
    }
}

pin_project! {
    struct Tracked<F> {
        #[pin]
        work: F,
        counted: Option<(Counted<Arc<Count>>, Option<PendingWork>)>,
    }
}

impl<F: Future<Output = ()>> Future for Tracked<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let done = this.work.poll(context);
        if done.is_ready() {
            *this.counted = None;
        }
        done
    }
}
