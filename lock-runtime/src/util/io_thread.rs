//! The I/O thread: one per process, with its own runtime, which is never dropped.
//!
//! Connections, renewals and background releases run here, so that a lock survives the runtime that acquired
//! it, and a body that blocks its thread.

use crate::util::first_of::first_of;
use crate::util::panics::{catch, caught, contain};
use crate::util::sync::Mutex;
use crate::util::time::{Sleep, Timeout, deadline_in, sleep_until, timeout_at};
use once_cell::sync::OnceCell;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::{Builder, EnterGuard, Handle};
use tokio::sync::{Notify, oneshot};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(crate) struct IoThread {
    runtime: &'static Handle,
    /// The runtime of the caller, if there is one, takes the place of the thread's: a test may have paused
    /// its clock.
    #[cfg(feature = "testing")]
    yields: bool,
}

static TICKER: Ticker = Ticker {
    wanted: AtomicBool::new(false),
    start: Notify::const_new(),
};

/// Work that another runtime polls, and that this thread polls as well while that runtime is blocked.
pub(crate) trait Assisted: Send + Sync {
    /// Polls the work if it needs help. Returns `true` if it must be checked again soon.
    fn look(self: Arc<Self>) -> bool;
}

static ASSISTED: Mutex<Vec<Weak<dyn Assisted>>> = Mutex::new(Vec::new());

/// The pause before a task that panicked is restarted.
const RESTART_DELAY: Duration = Duration::from_millis(100);

impl IoThread {
    /// Starts the thread on first use.
    pub(crate) fn start() -> std::io::Result<IoThread> {
        static HANDLE: OnceCell<Handle> = OnceCell::new();
        HANDLE
            .get_or_try_init(|| {
                // Take work of other threads in turn with that of this one: the requests of many callers
                // share a write only if they are there when it begins.
                let mut runtime = Builder::new_current_thread();
                let runtime = runtime.global_queue_interval(2).enable_all().build()?;
                let handle = runtime.handle().clone();
                std::thread::Builder::new()
                    .name("lock-io".into())
                    .spawn(move || runtime.block_on(TICKER.run()))?;
                Ok(handle)
            })
            .map(|runtime| IoThread {
                runtime,
                #[cfg(feature = "testing")]
                yields: false,
            })
    }

    /// Lets tasks and timers run on the runtime of the caller, if there is one, instead of this thread.
    #[cfg(feature = "testing")]
    pub(crate) fn yielding(self) -> IoThread {
        IoThread {
            yields: true,
            ..self
        }
    }

    /// Returns the runtime of the caller if tasks and timers run on that.
    fn callers_runtime(self) -> Option<Handle> {
        #[cfg(feature = "testing")]
        if self.yields {
            return Handle::try_current().ok();
        }
        None
    }

    /// Runs a task. A panic in it is logged and affects no other task.
    pub(crate) fn spawn<T: Send + 'static>(
        self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.start_task(Box::pin(task))
    }

    /// Runs a task that no other task awaits. A panic in it is logged and affects no other task.
    pub(crate) fn spawn_detached(self, task: impl Future<Output = ()> + Send + 'static) {
        #[cfg(test)]
        if crate::util::shuttle::execution::running() {
            return crate::util::shuttle::execution::spawn(task);
        }
        self.start_task(Box::pin(task));
    }

    /// Starts a task without its type: a program has what tokio makes for a task once for each type.
    fn start_task<T: Send + 'static>(
        self,
        task: Pin<Box<dyn Future<Output = T> + Send>>,
    ) -> JoinHandle<T> {
        let task = caught(task);
        let task = async { task.await.unwrap_or_else(|panic| resume_unwind(panic)) };
        match self.callers_runtime() {
            Some(runtime) => runtime.spawn(task),
            None => self.runtime.spawn(task),
        }
    }

    /// Runs work on this thread, to its end even if the caller leaves. Returns `None` if it has not ended by
    /// the deadline, or panics.
    pub(crate) async fn run_to_end<T: Send + 'static>(
        self,
        deadline: Instant,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let done = self.timeout_at(deadline, self.spawn(work)).await;
        done.ok()?.ok()
    }

    /// Runs the user's work on a thread of its own, which it may block, until the caller leaves. Returns
    /// `None` if it panics.
    pub(crate) async fn run_aside<F: Future<Output: Send + 'static>>(
        self,
        begin: impl FnOnce() -> F + Send + 'static,
    ) -> Option<F::Output> {
        let (mut caller, output) = oneshot::channel();
        self.runtime.spawn_blocking(move || {
            let run = async { first_of(caller.closed(), begin()).await };
            if let Some(Err(output)) = contain(|| self.runtime.block_on(run)) {
                let _ = caller.send(output);
            }
        });
        output.await.ok()
    }

    /// Returns a timeout that this thread's clock drives, independent of the executor that polls it.
    pub(crate) fn timeout_at<F: Future>(self, deadline: Instant, work: F) -> Timeout<F> {
        TICKER.request_tick();
        let _context = self.enter();
        timeout_at(deadline, work)
    }

    /// Returns a sleep that this thread's clock drives, independent of the executor that polls it.
    pub(crate) fn sleep_until(self, deadline: Instant) -> Sleep {
        let _context = self.enter();
        sleep_until(deadline)
    }

    /// Returns `true` if `runtime` is the runtime of this thread.
    pub(crate) fn is_current(self, runtime: &Handle) -> bool {
        self.runtime.id() == runtime.id()
    }

    fn enter(self) -> Option<EnterGuard<'static>> {
        match self.callers_runtime() {
            Some(_) => None,
            None => Some(self.runtime.enter()),
        }
    }
}

/// Ends a task when it is dropped.
pub(crate) struct AbortOnDrop(pub(crate) AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns `true` if futures can be polled on this thread. While a thread's locals are dropped at its end,
/// those of tokio may be gone already.
pub(crate) fn can_poll() -> bool {
    !matches!(Handle::try_current(), Err(error) if error.is_thread_local_destroyed())
}

/// Runs work to its end, and restarts it after a panic.
pub(crate) async fn kept(mut begin: impl AsyncFnMut()) {
    while caught(begin()).await.is_err() {
        pause().await;
    }
}

/// Waits before work that panicked is restarted.
pub(crate) async fn pause() {
    sleep_until(deadline_in(RESTART_DELAY)).await;
}

/// Registers `assisted` to be checked at each tick, as long as it exists.
pub(crate) fn assist(assisted: Weak<dyn Assisted>) {
    let mut known = ASSISTED.lock();
    known.retain(|assisted| assisted.strong_count() > 0);
    known.push(assisted);
}

/// Requests a tick, at which all registered work is checked.
pub(crate) fn keep_ticking() {
    TICKER.request_tick();
}

/// Wakes the thread every few milliseconds while there are requests, so that a timeout set by another thread
/// need not wake it, which would cost a system call or two each time. At each tick the thread checks the
/// registered work.
struct Ticker {
    wanted: AtomicBool,
    start: Notify,
}

impl Ticker {
    const PERIOD: Duration = Duration::from_millis(10);

    fn request_tick(&self) {
        if !self.wanted.load(Ordering::Relaxed) && !self.wanted.swap(true, Ordering::Relaxed) {
            self.start.notify_one();
        }
    }

    async fn run(&self) {
        loop {
            self.start.notified().await;
            while self.wanted.swap(false, Ordering::Relaxed) | look() {
                tokio::time::sleep(Self::PERIOD).await;
            }
        }
    }
}

/// Checks all registered work. Returns `true` if any of it must be checked again soon.
fn look() -> bool {
    let assisted: Vec<_> = {
        let known = ASSISTED.lock();
        known.iter().filter_map(Weak::upgrade).collect()
    };
    let looks = assisted.into_iter().map(|it| catch(|| it.look()));
    looks.fold(false, |again, look| again | look.unwrap_or(false))
}
