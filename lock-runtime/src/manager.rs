//! The lock manager: connects, and hands out locks.

use crate::backoff::Backoff;
use crate::clock::Clock;
use crate::engine::{ALIVE, Answer, Claim, Ear, Engine, EngineError, Fault, News};
use crate::io::{Io, after, instant};
use crate::owed::{self, Owed};
use crate::trace;
use crate::wait::Waiters;
use crate::watchdog::Watchdog;
use crate::{Config, Lock, LockError, Release};
use once_cell::sync::OnceCell;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

/// Hands out locks that are kept on one lock server. Cheap to clone: clones are the same manager.
///
/// Most services configure the one global manager with [`init`](crate::init) and never see this
/// type. Connect one of your own for a second server, or to pass it around instead of a global.
///
/// ```
/// use lock_runtime::{LockError, LockManager};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// let locks = LockManager::connect("memory://").await?;
/// let guard = locks.lock("order:42").acquire().await?;
/// assert!(locks.lock("order:42").try_acquire().await?.is_none());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// When the last clone and the last guard are gone, its connection is closed.
#[derive(Clone)]
pub struct LockManager {
    pub(crate) shared: Arc<Shared>,
}

/// For how long a lock may pass from guard to guard within this process while others wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandOver {
    pub(crate) most: u32,
    pub(crate) time: Duration,
}

/// Where news of an engine finds the manager, which comes after it.
pub(crate) type Desk = Arc<OnceCell<Weak<Shared>>>;

pub(crate) fn ear(desk: &Desk) -> Ear {
    let desk = desk.clone();
    Arc::new(move |news| {
        if let Some(shared) = desk.get().and_then(Weak::upgrade) {
            shared.hear(news);
        }
    })
}

/// What all locks of a manager share.
pub(crate) struct Shared {
    pub(crate) io: Io,
    pub(crate) clock: Clock,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) waiters: Waiters,
    pub(crate) ttl: Duration,
    pub(crate) wait: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) release: Release,
    pub(crate) hand_over: HandOver,
    owed: Arc<Owed>,
    prefix: String,
    /// The server's address, without credentials.
    server: Arc<str>,
    closed: AtomicBool,
    /// How many releases are under way in the background.
    releasing: watch::Sender<usize>,
}

impl LockManager {
    /// Connects to the lock server that a URL or a [`Config`] names.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidConfig`] if the configuration can't be used, or the server refuses the
    /// credentials; [`LockError::Unavailable`] if there is no connection within the connect
    /// timeout.
    pub async fn connect(config: impl Into<Config>) -> Result<LockManager, LockError> {
        let config = config.into();
        config.check()?;
        let io = Io::start().map_err(|error| LockError::Unavailable {
            key: None,
            server: "the I/O thread".into(),
            source: Arc::new(error),
        })?;
        let desk = Desk::default();
        let (engine, server) = config.open(io, ear(&desk)).await?;
        let manager = LockManager::new(io, Clock::System, engine, server, &config);
        let _ = desk.set(Arc::downgrade(&manager.shared));
        Ok(manager)
    }

    pub(crate) fn new(
        io: Io,
        clock: Clock,
        engine: Arc<dyn Engine>,
        server: Arc<str>,
        config: &Config,
    ) -> LockManager {
        let (releasing, _) = watch::channel(0);
        let owed = Arc::<Owed>::default();
        let manager = LockManager {
            shared: Arc::new(Shared {
                watchdog: Watchdog::start(io, engine.clone(), clock.clone()),
                io,
                clock,
                engine,
                waiters: Waiters::default(),
                ttl: config.ttl,
                wait: config.wait,
                command_timeout: config.command_timeout,
                release: config.release,
                hand_over: config.hand_over,
                prefix: config.prefix.clone(),
                server,
                closed: AtomicBool::new(false),
                releasing,
                owed: owed.clone(),
            }),
        };
        io.spawn(owed::look_after(owed, Arc::downgrade(&manager.shared)));
        manager
    }

    /// A lock with this key, to be taken as its [`Lock`] says. Nothing is sent yet.
    pub fn lock(&self, key: impl Into<String>) -> Lock {
        Lock::new(Some(self.shared.clone()), "", key.into())
    }

    /// Hands out no more locks, and waits until those dropped so far are released on the server.
    ///
    /// Call it last before the process ends: a guard that was dropped is released in the background,
    /// which ends with the process. Locks that are still held stay held; who waits for one gets
    /// [`LockError::ShuttingDown`]. With the server out of reach this takes as long as the longest
    /// ttl among the releases; put a timeout around it if that is too long. Dropping the future
    /// stops waiting, and nothing else.
    pub async fn shutdown(&self) {
        self.shared.closed.store(true, Ordering::Release);
        self.shared.waiters.look();
        let mut releasing = self.shared.releasing.subscribe();
        // The sender is ours, so there is an end to wait for.
        let _ = releasing.wait_for(|releasing| *releasing == 0).await;
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager")
            .field("server", &self.shared.server)
            .field("prefix", &self.shared.prefix)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The name under which the engine keeps the lock with that key.
    pub(crate) fn name_of(&self, key: &str) -> Arc<str> {
        [&self.prefix, key].concat().into()
    }

    pub(crate) fn key_of<'a>(&self, name: &'a str) -> &'a str {
        &name[self.prefix.len()..]
    }

    pub(crate) fn unavailable(&self, name: &str, error: EngineError) -> LockError {
        LockError::Unavailable {
            key: Some(self.key_of(name).into()),
            server: self.server.clone(),
            source: error.source,
        }
    }

    /// Repeats a request that does no harm when repeated, through passing troubles, until then.
    /// Each try is given the command timeout. Says beside the answer whether an earlier try may
    /// have been carried out.
    pub(crate) async fn persist<'a, T>(
        &self,
        until: Instant,
        request: impl Fn(Instant) -> Answer<'a, T>,
    ) -> Result<(T, bool), EngineError> {
        let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(200));
        let mut repeated = false;
        loop {
            match request(after(self.command_timeout).min(until)).await {
                Ok(answer) => return Ok((answer, repeated)),
                Err(error) if error.is_transient() => {
                    repeated |= error.fault == Fault::Unanswered;
                    let next = instant() + backoff.pause();
                    if next >= until {
                        return Err(error);
                    }
                    self.io.sleep_until(next).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Releases a lock, and says whether it was still the claim's. `held`: it was until now, as far
    /// as we know, so that it should be.
    pub(crate) async fn release(
        &self,
        claim: &Claim,
        until: Instant,
        held: bool,
    ) -> Result<bool, EngineError> {
        let (found, repeated) = self
            .persist(until, |until| self.engine.release(claim, until))
            .await?;
        // What an earlier try has freed, a later one can't find.
        let found = found || repeated;
        if !found && held {
            trace::release_found_nothing(self.key_of(&claim.name));
        }
        Ok(found)
    }

    /// Releases in the background until the server has confirmed it, or the ttl has passed. It is
    /// sent at once, before whatever the caller sends next.
    pub(crate) fn release_later(self: &Arc<Self>, claim: Claim, held: bool) {
        let runtime = Handle::try_current().ok();
        let Some(runtime) = runtime.filter(|_| self.engine.is_at_home()) else {
            let mut release = Box::pin(self.clone().release_for(claim.ttl, claim, held));
            if begin(release.as_mut()).is_pending() {
                self.in_background(release);
            }
            return;
        };
        self.owed.enter(claim.clone(), held);
        self.releasing.send_modify(|releasing| *releasing += 1);
        let shared = self.clone();
        let mut release = Box::pin(async move {
            let until = after(shared.command_timeout);
            let released = shared.release(&claim, until, held).await;
            if released.is_ok() && shared.owed.settle(claim.token) {
                shared.releasing.send_modify(|releasing| *releasing -= 1);
            }
        });
        if begin(release.as_mut()).is_pending() {
            runtime.spawn(release);
        }
    }

    /// Goes on with a release that its own runtime has not brought to an end.
    pub(crate) fn take_over(self: &Arc<Self>, release: owed::Release) {
        let owed::Release { claim, held, .. } = release;
        self.in_background(self.clone().release_for(claim.ttl, claim, held));
        self.releasing.send_modify(|releasing| *releasing -= 1);
    }

    async fn release_for(self: Arc<Self>, time: Duration, claim: Claim, held: bool) {
        if let Err(error) = self.release(&claim, after(time), held).await {
            trace::release_failed(self.key_of(&claim.name), &error);
        }
    }

    /// Has a claim leave its queue, and give back what it may have been granted.
    pub(crate) fn cancel_later(self: &Arc<Self>, claim: Claim, unanswered: bool) {
        let shared = self.clone();
        self.in_background(async move {
            let until = after(claim.ttl.max(ALIVE));
            let engine = &shared.engine;
            let cancelled = shared
                .persist(until, |until| engine.cancel(&claim, unanswered, until))
                .await;
            shared.waiters.forget(claim.token);
            if let Err(error) = cancelled {
                trace::release_failed(shared.key_of(&claim.name), &error);
            }
        });
    }

    /// Takes what the engine tells.
    fn hear(self: Arc<Self>, news: News) {
        if let Some(unwanted) = self.waiters.hear(news) {
            let claim = Claim {
                name: unwanted.name,
                token: unwanted.token,
                ttl: unwanted.lease,
            };
            self.cancel_later(claim, false);
        }
    }

    /// Does what [`shutdown`](LockManager::shutdown) waits for.
    pub(crate) fn in_background(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        self.releasing.send_modify(|releasing| *releasing += 1);
        let shared = self.clone();
        self.io.spawn(async move {
            work.await;
            shared.releasing.send_modify(|releasing| *releasing -= 1);
        });
    }
}

/// Polls a future the first time, so that what it sends is sent.
fn begin<F: Future<Output = ()>>(work: Pin<&mut F>) -> Poll<()> {
    work.poll(&mut Context::from_waker(Waker::noop()))
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.watchdog.close();
        self.owed.close();
    }
}
