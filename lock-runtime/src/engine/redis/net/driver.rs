//! The driver of a connection: it writes the requests of a [`Pipeline`], and reads the replies.
//!
//! It runs on the runtime that uses the connection, so that no request and no reply crosses threads. While
//! that runtime is stalled, because a task blocks its thread, the I/O thread drives the connection as well.
//! Whichever thread does, requests stay in order and are written once.

use crate::engine::redis::net::client_id::{BrokenClients, ClientId};
use crate::engine::redis::net::encoder::Output;
use crate::engine::redis::net::pipeline::Pipeline;
use crate::engine::redis::net::reply;
use crate::engine::redis::net::slots::effects::Effects;
use crate::engine::redis::net::socket::Stream;
use crate::engine::token::Token;
use crate::util::io_thread::{self, Assisted};
use crate::util::time::now;
use std::future::Future;
use std::mem::replace;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Duration;
use tokio::io::ReadBuf;
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// The size of one read, and of the first buffer.
const READ_SIZE: usize = 16 * 1024;

/// The handle of a driver, which ends when this is dropped.
pub(crate) struct Driver(Arc<Shared>);

struct Shared {
    pipeline: Arc<Pipeline>,
    /// `None` once the driver has ended.
    io: Mutex<Option<Io>>,
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
    /// After this time without a reply the connection is abandoned.
    silence_timeout: Duration,
    client: Option<ClientId>,
    broken: Arc<BrokenClients>,
}

/// What only the thread that drives the connection uses.
struct Io {
    stream: Stream,
    output: Output,
    input: Vec<u8>,
    /// The number of bytes in `input` that no complete reply has used yet.
    filled: usize,
    /// The random bytes of the tokens of one write.
    random: Vec<u8>,
    /// `true` if the driver has let other tasks go first.
    stepped_back: bool,
    effects: Effects,
}

/// The connection is no longer usable.
struct Broken;

/// The value of `behind` while the driver is not behind.
const NEVER: u64 = u64::MAX;

impl Driver {
    /// Starts the driver as a task of that runtime, and ends with it. `client` is how the server knows the
    /// connection; if it breaks with requests under way, it is added to `broken`.
    pub(super) fn start(
        runtime: &Handle,
        pipeline: Arc<Pipeline>,
        (stream, output): (Stream, Output),
        silence_timeout: Duration,
        (client, broken): (Option<ClientId>, Arc<BrokenClients>),
    ) -> Driver {
        let shared = Arc::new(Shared {
            pipeline: pipeline.clone(),
            io: Mutex::new(Some(Io::new(stream, output))),
            ends: AtomicBool::new(false),
            owner: OnceLock::new(),
            // Requests may come before the first poll.
            wanted: AtomicU64::new(1),
            polled: AtomicU64::new(0),
            behind: AtomicU64::new(NEVER),
            helped: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            ended: Notify::new(),
            silence_timeout,
            client,
            broken,
        });
        pipeline.set_driver(Waker::from(shared.clone()));
        let assisted: Arc<dyn Assisted> = shared.clone();
        io_thread::assist(Arc::downgrade(&assisted));
        io_thread::keep_ticking();
        runtime.spawn(Task(shared.clone()));
        Driver(shared)
    }

    pub(crate) fn end(&self) {
        self.0.end();
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
            let silent = slots.silence(time) >= self.silence_timeout;
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
        mut io: MutexGuard<'_, Option<Io>>,
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
        if let Some(client) = &self.client
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

impl Io {
    fn new(stream: Stream, output: Output) -> Io {
        Io {
            stream,
            output,
            input: vec![0; READ_SIZE],
            filled: 0,
            random: Vec::new(),
            stepped_back: false,
            effects: Effects::default(),
        }
    }

    /// Writes and reads as much as possible. Is ready when the connection has ended.
    fn poll(
        &mut self,
        pipeline: &Pipeline,
        context: &mut Context<'_>,
        helps: bool,
    ) -> Poll<Broken> {
        loop {
            if self.output.rest().is_empty() {
                if !helps && self.steps_back(pipeline) {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                if self.take_requests(pipeline).is_err() {
                    return Poll::Ready(Broken);
                }
            }
            let had_output = !self.output.rest().is_empty();
            let written = self.poll_write(context);
            let read = self.poll_read(pipeline, context);
            match (written, read) {
                (Poll::Ready(Err(_)), _) | (_, Poll::Ready(Err(_))) => return Poll::Ready(Broken),
                (_, Poll::Ready(Ok(()))) => {}
                // More requests may have come while the socket was full.
                (Poll::Ready(Ok(())), _) if had_output && pipeline.slots().has_unsent() => {}
                _ => return Poll::Pending,
            }
        }
    }

    /// Returns `true` once before each write, unless the request is alone: then the other tasks that are ready
    /// add theirs first. This multiplies the throughput under load, and delays no lone request.
    fn steps_back(&mut self, pipeline: &Pipeline) -> bool {
        let slots = pipeline.slots();
        let may = slots.has_unsent() && slots.in_use() > 1;
        may && !replace(&mut self.stepped_back, true)
    }

    /// Encodes all unsent requests.
    fn take_requests(&mut self, pipeline: &Pipeline) -> Result<(), Broken> {
        self.stepped_back = false;
        let mut slots = pipeline.slots();
        // One system call for the tokens of a whole write. No random byte is kept for later: a virtual machine
        // that is cloned must not repeat a token.
        self.random.clear();
        self.random.resize(16 * slots.unsent_acquisitions(), 0);
        if !self.random.is_empty() {
            getrandom::fill(&mut self.random).map_err(|_| Broken)?;
        }
        let tokens = self.random.chunks_exact(16);
        let tokens = tokens.filter_map(|bytes| bytes.try_into().ok().map(Token::from_random));
        slots.write(tokens, &mut self.output, now);
        Ok(())
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        while !self.output.rest().is_empty() {
            let stream = Pin::new(&mut *self.stream);
            match ready!(stream.poll_write(context, self.output.rest())) {
                Ok(0) | Err(_) => return Poll::Ready(Err(Broken)),
                Ok(written) => self.output.advance(written),
            }
        }
        let flushed = Pin::new(&mut *self.stream).poll_flush(context);
        flushed.map_err(|_| Broken)
    }

    /// Reads once, and reports the replies that are complete.
    fn poll_read(
        &mut self,
        pipeline: &Pipeline,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Broken>> {
        if self.filled == self.input.len() {
            self.input.resize(self.filled + READ_SIZE, 0);
        }
        let mut buffer = ReadBuf::new(&mut self.input[self.filled..]);
        let read = ready!(Pin::new(&mut *self.stream).poll_read(context, &mut buffer));
        let read = read.map(|()| buffer.filled().len());
        self.filled += match read {
            Ok(0) | Err(_) => return Poll::Ready(Err(Broken)),
            Ok(read) => read,
        };
        let reported = self.report_replies(pipeline);
        self.effects.perform();
        Poll::Ready(reported)
    }

    fn report_replies(&mut self, pipeline: &Pipeline) -> Result<(), Broken> {
        let (mut used, time) = (0, now());
        let mut slots = pipeline.slots();
        loop {
            let rest = &self.input[used..self.filled];
            let Some(length) = reply::length(rest).map_err(|_| Broken)? else {
                break;
            };
            let bytes = &rest[..length];
            used += length;
            // A message without a request.
            if bytes.starts_with(b">") {
                continue;
            }
            let reply = reply::parse(bytes).map_err(|_| Broken)?;
            let answered = slots.answer(reply, time, &mut self.effects);
            answered.map_err(|_| Broken)?;
        }
        drop(slots);
        self.input.copy_within(used..self.filled, 0);
        self.filled -= used;
        Ok(())
    }
}

/// What panicked is not used again.
fn none(io: PoisonError<MutexGuard<'_, Option<Io>>>) -> MutexGuard<'_, Option<Io>> {
    let mut io = io.into_inner();
    *io = None;
    io
}

/// The waker that callers use, and that of the I/O thread: the owner continues if it can, and is assisted if
/// it cannot.
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
