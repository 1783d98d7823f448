//! The lock manager: connects, and hands out locks.

use crate::api::lock::Lock;
use crate::config::Config;
use crate::engine::error::EngineError;
use crate::engine::event::{Ear, News};
use crate::engine::request::Claim;
use crate::engine::traits::Engine;
use crate::error::LockError;
use crate::lock::local_queue::Waiters;
use crate::lock::pending_releases::{self, Owed};
use crate::lock::watchdog::Watchdog;
use crate::options::Release;
use crate::trace;
use crate::util::clock::Clock;
use crate::util::io_thread::{Io, kept};
use crate::util::sync::{AtomicBool, watch};
use crate::warning::Warning;
use once_cell::sync::OnceCell;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

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
    pub(crate) replicas: u32,
    pub(crate) hand_over: HandOver,
    pub(crate) owed: Arc<Owed>,
    prefix: String,
    /// The server's address, without credentials.
    server: Arc<str>,
    closed: AtomicBool,
    pub(crate) failures: trace::Failures,
    /// How many releases are under way in the background.
    pub(crate) releasing: watch::Sender<usize>,
}

impl LockManager {
    /// Connects to the lock server that a URL or a [`Config`] names.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidConfig`] if the configuration can't be used, or the server refuses the
    /// credentials; [`LockError::Unavailable`] if there is no connection within the connect
    /// timeout; [`LockError::Unsafe`] if the configuration is [strict](Config::strict) and the server
    /// is not safe for locks.
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
        if config.strict {
            let warnings = manager.check().await;
            if !warnings.is_empty() {
                return Err(LockError::Unsafe {
                    warnings: warnings.into(),
                });
            }
        } else if trace::warnings_are_heard() {
            let (engine, ttl) = (manager.shared.engine.clone(), config.ttl);
            let replicas = config.replicas;
            io.spawn(async move {
                let found = engine.inspect(ttl, replicas).await;
                found.warnings.iter().for_each(trace::unsafe_server);
            });
        }
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
                replicas: config.replicas,
                hand_over: config.hand_over,
                prefix: config.prefix.clone(),
                server,
                closed: AtomicBool::new(false),
                failures: trace::Failures::default(),
                releasing,
                owed: owed.clone(),
            }),
        };
        let shared = Arc::downgrade(&manager.shared);
        io.run(kept(move || {
            pending_releases::collect(owed.clone(), shared.clone())
        }));
        manager
    }

    /// A lock with this key, to be taken as its [`Lock`] says. Nothing is sent yet.
    pub fn lock(&self, key: impl Into<String>) -> Lock {
        Lock::new(Some(self.shared.clone()), "", key.into())
    }

    /// Looks for what makes the lock server unsafe: settings for which locks of the manager's ttl may be
    /// lost or had twice. None, if all is well.
    ///
    /// It asks each server that has a part in it, on a connection of its own, and takes no longer than
    /// connecting may take. What can't be found out is a warning, too: [`Danger::Unknown`](crate::Danger).
    /// The user needs the permissions `+info +time +config|get`.
    ///
    /// ```
    /// # use lock_runtime::LockManager;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_runtime::LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// for warning in locks.check().await {
    ///     eprintln!("{warning}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check(&self) -> Vec<Warning> {
        let shared = &self.shared;
        let found = shared.engine.inspect(shared.ttl, shared.replicas);
        found.await.warnings
    }

    /// Hands out no more locks, and waits until those dropped so far are released on the server.
    ///
    /// Call it last before the process ends: a guard that was dropped is released in the background,
    /// which ends with the process. Locks that are still held stay held; who waits for one gets
    /// [`LockError::ShuttingDown`]. With the server out of reach this takes as long as the longest
    /// ttl among the releases and waiters; put a timeout around it if that is too long. Dropping the future
    /// stops waiting, and nothing else.
    pub async fn shutdown(&self) {
        self.shared.closed.store(true, Ordering::Release);
        self.shared.waiters.look();
        self.shared.owed.hurry();
        let mut releasing = self.shared.releasing.subscribe();
        // The sender is ours, so there is an end to wait for.
        let _ = releasing.wait_for(|releasing| *releasing == 0).await;
        let _ = self.shared.engine.rest().await;
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
        name.strip_prefix(&*self.prefix).unwrap_or(name)
    }

    /// The server that keeps that lock, without credentials.
    pub(crate) fn server_of(&self, name: &str) -> Arc<str> {
        let node = self.engine.node_of(name);
        node.unwrap_or_else(|| self.server.clone())
    }

    pub(crate) fn unavailable(&self, name: &str, error: EngineError) -> LockError {
        LockError::Unavailable {
            key: Some(self.key_of(name).into()),
            server: self.server.clone(),
            source: error.source,
        }
    }

    /// Takes what the engine tells.
    fn hear(self: Arc<Self>, news: News) {
        if let Some(unwanted) = self.waiters.hear(news) {
            let claim = Claim {
                name: unwanted.name,
                token: unwanted.token,
                ttl: unwanted.lease,
                replicas: 0,
            };
            self.cancel_later(claim, false);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.watchdog.close();
        self.owed.hurry();
    }
}
