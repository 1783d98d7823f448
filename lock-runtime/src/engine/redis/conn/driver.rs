//! The driver of a connection: the task that exchanges the requests of a [`Pipeline`] for replies.
//!
//! It runs on the runtime that uses the connection, so that no request and no reply crosses threads. While
//! that runtime is stalled, because a task blocks its thread, the I/O thread drives the connection as well.
//! Whichever thread does, requests stay in order and are written once.

use crate::engine::redis::conn::batch::effects::Effects;
use crate::engine::redis::conn::client_id::{BrokenClients, ClientId};
use crate::engine::redis::conn::exchange::{Broken, Exchange};
use crate::engine::redis::conn::pipeline::Pipeline;
use crate::engine::timeouts::Timeouts;
use crate::util::io_thread::{self, Assisted};
use crate::util::time::now;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::task::{Context, Poll, Wake, Waker};
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// The handle of a driver, which ends when this is dropped.
pub(crate) struct Driver(Arc<Shared>);

struct Shared {
    pipeline: Arc<Pipeline>,
    /// `None` once the driver has ended.
    io: Mutex<Option<Exchange>>,
    ends: AtomicBool,
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
    /// `true` if the server was found silent.
    silent: AtomicBool,
    ended: Notify,
    timeouts: Timeouts,
    /// How the server knows the connection; not set before that is set up.
    client: OnceLock<Option<ClientId>>,
    broken: Arc<BrokenClients>,
}

/// The value of `behind` while the driver is not behind.
const NEVER: u64 = u64::MAX;

impl Driver {
    /// Starts the driver as a task of that runtime, and ends with it. If the connection breaks with requests
    /// under way, it is added to `broken`.
    pub(super) fn start(
        runtime: &Handle,
        pipeline: Arc<Pipeline>,
        exchange: Exchange,
        timeouts: Timeouts,
        broken: Arc<BrokenClients>,
    ) -> Driver {
        let shared = Arc::new(Shared {
            pipeline: pipeline.clone(),
            io: Mutex::new(Some(exchange)),
            ends: AtomicBool::new(false),
            owner: OnceLock::new(),
            // Requests may come before the first poll.
            wanted: AtomicU64::new(1),
            polled: AtomicU64::new(0),
            behind: AtomicU64::new(NEVER),
            helped: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            ended: Notify::new(),
            timeouts,
            client: OnceLock::new(),
            broken,
        });
        pipeline.set_driver(Waker::from(shared.clone()));
        let assisted: Arc<dyn Assisted> = shared.clone();
        io_thread::assist(Arc::downgrade(&assisted));
        io_thread::keep_ticking();
        runtime.spawn(Task(shared.clone()));
        Driver(shared)
    }

    /// The connection is set up, and the server knows it as that client.
    pub(super) fn set_up(&self, client: Option<ClientId>) {
        let _ = self.0.client.set(client);
    }

    pub(crate) fn end(&self) {
        self.0.end();
    }

    /// Returns `true` if the driver has ended, or is about to.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.ends.load(Ordering::SeqCst)
    }

    /// Waits for the driver's end.
    pub(crate) async fn ended(&self) {
        self.0.ended.notified().await;
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.end();
    }
}

impl Assisted for Shared {
    /// Drives the connection from the I/O thread if nothing has driven it since the last look, and ends the
    /// requests whose deadline has passed.
    fn look(self: Arc<Self>) -> bool {
        let time = now();
        let (under_way, overdue, silent) = {
            let slots = self.pipeline.slots();
            // The try to connect limits how long setting it up takes.
            let silent =
                self.client.get().is_some() && slots.silence(time) >= self.timeouts.silence();
            (slots.is_busy(), slots.is_overdue(time), silent)
        };
        let polled = self.polled.load(Ordering::Acquire);
        // While the runtime is stalled, nothing else reads replies.
        let unread = self.helped.load(Ordering::Relaxed) && under_way;
        let late = polled != self.wanted.load(Ordering::Acquire) || unread;
        match late {
            true if self.behind.swap(polled, Ordering::Relaxed) == polled => self.help(),
            // A reply that has arrived counts, even if it is read late.
            _ if overdue || silent => self.help(),
            true => {}
            false => self.behind.store(NEVER, Ordering::Relaxed),
        }
        // A process that was stopped has to read first.
        if self.silent.swap(silent, Ordering::Relaxed) && silent {
            self.end();
        }
        let mut effects = Effects::default();
        let under_way = self.pipeline.slots().expire(time, &mut effects);
        effects.perform();
        late || under_way
    }
}

impl Shared {
    /// Drives the connection on the I/O thread, unless another thread does.
    fn help(self: &Arc<Self>) {
        let io = match self.io.try_lock() {
            Ok(io) => io,
            Err(TryLockError::Poisoned(io)) => none(io),
            Err(TryLockError::WouldBlock) => return,
        };
        self.helped.store(true, Ordering::Relaxed);
        let waker = Waker::from(self.clone());
        let polled = self.poll(io, &mut Context::from_waker(&waker), true);
        if polled.is_ready() {
            self.wake_owner();
        }
        // While the owner is stalled, the I/O thread also does what comes next.
        let polled = self.polled.load(Ordering::Acquire);
        self.behind.store(polled, Ordering::Relaxed);
    }

    fn poll(
        &self,
        mut io: MutexGuard<'_, Option<Exchange>>,
        context: &mut Context<'_>,
        helps: bool,
    ) -> Poll<()> {
        let wanted = self.wanted.load(Ordering::Acquire);
        self.polled.store(wanted, Ordering::Release);
        let polled = match &mut *io {
            Some(io) => io.poll(&self.pipeline, context, helps),
            None => Poll::Ready(Broken),
        };
        if io.as_ref().is_some_and(|io| io.stepped_back) {
            // A task that goes first may block the thread.
            self.wanted.fetch_add(1, Ordering::Release);
        }
        drop(io);
        if polled.is_ready() {
            self.ends.store(true, Ordering::SeqCst);
        }
        match self.end_if_wanted() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    fn end(&self) {
        self.ends.store(true, Ordering::SeqCst);
        self.end_if_wanted();
    }

    /// Ends the driver if that is wanted and no thread drives it. A thread that does calls this again.
    fn end_if_wanted(&self) -> bool {
        if !self.ends.load(Ordering::SeqCst) {
            return false;
        }
        let io = match self.io.try_lock() {
            Ok(mut io) => io.take(),
            Err(TryLockError::Poisoned(io)) => none(io).take(),
            Err(TryLockError::WouldBlock) => return true,
        };
        if let Some(Some(client)) = self.client.get()
            && self.pipeline.slots().expects_reply()
        {
            // Before any caller learns of the end, and releases what it may have acquired.
            self.broken.add(client.clone());
        }
        drop(io);
        self.pipeline.end();
        self.ended.notify_one();
        self.wake_owner();
        true
    }

    fn wake_owner(&self) {
        if let Some(owner) = self.owner.get() {
            owner.wake_by_ref();
        }
    }
}

/// What panicked is not used again.
fn none(io: PoisonError<MutexGuard<'_, Option<Exchange>>>) -> MutexGuard<'_, Option<Exchange>> {
    let mut io = io.into_inner();
    *io = None;
    io
}

/// Wakes the task on the driver's own runtime, and has the I/O thread look at the connection: if the runtime
/// is stalled, the I/O thread does the task's work. Callers that submit requests use this waker, and so does
/// the I/O thread when it drives the connection.
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
        let io = shared.io.lock().unwrap_or_else(none);
        shared.helped.store(false, Ordering::Relaxed);
        shared.poll(io, context, false)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.end();
    }
}
