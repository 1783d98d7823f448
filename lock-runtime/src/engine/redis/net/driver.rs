//! The driver of a connection: a future that its runtime polls, and the I/O thread too while that runtime is
//! stalled.
//!
//! A task that blocks its thread may keep the driver from running, even though other threads of the runtime
//! continue: submitted requests would not even be sent. Whichever thread polls the driver, requests stay in
//! order and are sent once.

use crate::util::io_thread::{self, Assisted};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::task::{Context, Poll, Wake, Waker};
use tokio::runtime::Handle;
use tokio::sync::Notify;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The handle of a driver, which ends when this is dropped.
pub(crate) struct Driver(Arc<Shared>);

struct Shared {
    /// `None` once the driver has ended.
    work: Mutex<Option<Work>>,
    /// Wakes the task on the driver's own runtime.
    owner: OnceLock<Waker>,
    /// The number of times that there was something to do.
    wanted: AtomicU64,
    /// The value of `wanted` at the last poll.
    polled: AtomicU64,
    /// The value of `polled` when the driver was found behind.
    behind: AtomicU64,
    /// `true` if the I/O thread polled it last.
    helped: AtomicBool,
    /// The number of requests without a reply.
    open: AtomicUsize,
    ended: Notify,
}

/// The value of `behind` while the driver is not behind.
const NEVER: u64 = u64::MAX;

impl Driver {
    /// Starts the driver as a task of that runtime, and ends with it.
    pub(crate) fn start(
        runtime: &Handle,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Driver {
        let shared = Arc::new(Shared {
            work: Mutex::new(Some(Box::pin(work))),
            owner: OnceLock::new(),
            wanted: AtomicU64::new(0),
            polled: AtomicU64::new(0),
            behind: AtomicU64::new(NEVER),
            helped: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            ended: Notify::new(),
        });
        let assisted: Arc<dyn Assisted> = shared.clone();
        io_thread::assist(Arc::downgrade(&assisted));
        runtime.spawn(Task(shared.clone()));
        Driver(shared)
    }

    /// Polls a request, and records each time that there may be something to do for it.
    pub(crate) async fn follow<F: Future + Unpin>(&self, mut request: F) -> F::Output {
        let _open = Open::one_of(&self.0.open);
        poll_fn(|context| {
            let answer = Pin::new(&mut request).poll(context);
            if answer.is_pending() {
                self.0.wanted.fetch_add(1, Ordering::Release);
            }
            answer
        })
        .await
    }

    /// Returns `true` if the runtime is stalled: replies that have arrived may not have been read.
    pub(crate) fn is_stalled(&self) -> bool {
        self.0.helped.load(Ordering::Relaxed)
    }

    pub(crate) fn end(&self) {
        self.0.end();
    }

    /// Waits for the driver's end.
    pub(crate) async fn ended(&self) {
        self.0.ended.notified().await;
    }
}

/// A request without a reply.
struct Open<'a>(&'a AtomicUsize);

impl Open<'_> {
    fn one_of(open: &AtomicUsize) -> Open<'_> {
        open.fetch_add(1, Ordering::Relaxed);
        Open(open)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.end();
    }
}

impl Assisted for Shared {
    /// Polls the driver from the I/O thread if nothing has polled it since the last look.
    fn look(self: Arc<Self>) -> bool {
        let polled = self.polled.load(Ordering::Acquire);
        // While the runtime is stalled, nothing else reads replies.
        let expects = self.helped.load(Ordering::Relaxed) && self.open.load(Ordering::Relaxed) > 0;
        if polled == self.wanted.load(Ordering::Acquire) && !expects {
            self.behind.store(NEVER, Ordering::Relaxed);
            return false;
        }
        if self.behind.swap(polled, Ordering::Relaxed) != polled {
            return true;
        }
        let work = match self.work.try_lock() {
            Ok(work) => work,
            Err(TryLockError::Poisoned(work)) => none(work),
            Err(TryLockError::WouldBlock) => return true,
        };
        self.helped.store(true, Ordering::Relaxed);
        let waker = Waker::from(self.clone());
        if self.poll(work, &mut Context::from_waker(&waker)).is_ready() {
            self.wake_owner();
        }
        // While the owner is stalled, the I/O thread also does what comes next.
        let polled = self.polled.load(Ordering::Acquire);
        self.behind.store(polled, Ordering::Relaxed);
        true
    }
}

impl Shared {
    fn poll(&self, mut work: MutexGuard<'_, Option<Work>>, context: &mut Context<'_>) -> Poll<()> {
        let wanted = self.wanted.load(Ordering::Acquire);
        self.polled.store(wanted, Ordering::Release);
        let Some(present) = &mut *work else {
            return Poll::Ready(());
        };
        let polled = present.as_mut().poll(context);
        if polled.is_ready() {
            *work = None;
        }
        polled
    }

    fn end(&self) {
        let work = self.work.lock().unwrap_or_else(none).take();
        drop(work);
        self.ended.notify_one();
        self.wake_owner();
    }

    fn wake_owner(&self) {
        if let Some(owner) = self.owner.get() {
            owner.wake_by_ref();
        }
    }
}

/// A future that panicked is not polled again.
fn none(work: PoisonError<MutexGuard<'_, Option<Work>>>) -> MutexGuard<'_, Option<Work>> {
    let mut work = work.into_inner();
    *work = None;
    work
}

/// The I/O thread's waker: the owner continues if it can, and is assisted again if it cannot.
impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wanted.fetch_add(1, Ordering::Release);
        io_thread::keep_ticking();
        self.wake_owner();
    }
}

/// The task on the driver's own runtime.
struct Task(Arc<Shared>);

impl Future for Task {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let shared = &self.0;
        shared.owner.get_or_init(|| context.waker().clone());
        let work = shared.work.lock().unwrap_or_else(none);
        shared.helped.store(false, Ordering::Relaxed);
        shared.poll(work, context)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.end();
    }
}
