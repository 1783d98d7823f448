//! The lock manager: connects to the server and creates locks.

use crate::api::lock::{Keys, Lock};
use crate::config::Config;
use crate::error::LockError;
use crate::lock::inner::{InnerSlot, ManagerInner};
use crate::trace;
use crate::util::clock::Clock;
use crate::util::io_thread::IoThread;
use crate::warning::Warning;
use std::fmt;
use std::sync::Arc;

/// A connection to one lock server, which creates its locks. Clones are cheap and share one manager.
///
/// Most services configure the global manager with [`init`](crate::init) and never use this type. Connect a
/// manager for a second server, or to pass it as a value instead of using a global one.
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
/// Dropping the last clone and the last guard closes the connection.
#[derive(Clone)]
pub struct LockManager {
    pub(crate) inner: Arc<ManagerInner>,
}

impl LockManager {
    /// Connects to the lock server of a URL or a [`Config`]. Dropping the future abandons the attempt.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidConfig`] if the configuration is invalid, or the server rejects the credentials;
    /// [`LockError::InvalidOption`] if the default ttl is out of range; [`LockError::Unavailable`] if there is
    /// no connection within the connect timeout; [`LockError::UnsafeServer`] if the server check returns
    /// warnings and [`Config::refuse_unsafe_servers`] is set.
    pub async fn connect(config: impl Into<Config>) -> Result<LockManager, LockError> {
        let config = config.into();
        config.validate()?;
        let io = IoThread::start().map_err(|error| LockError::Unavailable {
            key: None,
            server: "the I/O thread".into(),
            source: Arc::new(error),
        })?;
        let slot = InnerSlot::default();
        let (engine, server) = config.open(io, Clock::System, slot.event_handler()).await?;
        let inner = ManagerInner::start(io, Clock::System, engine, server, &config);
        slot.fill(&inner);
        let manager = LockManager { inner };
        if config.strict {
            let warnings = manager.check_servers().await;
            if !warnings.is_empty() {
                return Err(LockError::UnsafeServer {
                    warnings: warnings.into(),
                });
            }
        } else if trace::warnings_enabled() {
            let engine = manager.inner.context.engine.clone();
            let (ttl, replicas) = (config.ttl, config.replicas);
            io.spawn(async move {
                let found = engine.inspect(ttl, replicas).await;
                found.warnings.iter().for_each(trace::unsafe_server);
            });
        }
        Ok(manager)
    }

    /// Creates a [`Lock`] with this key. Sends nothing.
    pub fn lock(&self, key: impl Into<String>) -> Lock {
        Lock::new(Some(self.inner.clone()), "", Keys::One(key.into()))
    }

    /// Creates a [`Lock`] that is held when all of these keys are. Sends nothing.
    ///
    /// Every call acquires its keys in the same order, whatever the order here, so calls with common keys never
    /// wait for each other. `wait` bounds the whole call. A key that is named twice counts once. On every path on
    /// which the call or the guard ends, all keys are released; losing one of them loses the guard.
    ///
    /// ```
    /// # use lock_runtime::{LockError, LockManager};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// let guard = locks.lock_all(["account:2", "account:1"]).acquire().await?;
    /// assert!(guard.keys().eq(["account:1", "account:2"]));
    /// assert!(locks.lock("account:1").try_acquire().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_all<K: Into<String>>(&self, keys: impl IntoIterator<Item = K>) -> Lock {
        let keys = keys.into_iter().map(K::into).collect();
        Lock::new(Some(self.inner.clone()), "", Keys::All(keys))
    }

    /// Inspects the lock server. Returns a warning for each setting that may lose locks with the manager's
    /// default ttl, or give them two holders; an empty vector if there is none.
    ///
    /// The check connects to every server of the deployment, and takes no longer than the connect timeout. A
    /// setting that cannot be read is a warning, too: [`WarningKind::NotChecked`](crate::WarningKind). The
    /// user needs the permissions `+info +time +config|get`.
    ///
    /// ```
    /// # use lock_runtime::LockManager;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_runtime::LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// for warning in locks.check_servers().await {
    ///     eprintln!("{warning}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check_servers(&self) -> Vec<Warning> {
        let context = &self.inner.context;
        let defaults = &context.defaults;
        let found = context.engine.inspect(defaults.ttl, defaults.replicas);
        found.await.warnings
    }

    /// Stops granting locks, and waits until all guards dropped so far are released on the server.
    ///
    /// Call it last before the process ends: a dropped guard is released in the background, which ends with
    /// the process. Held locks stay held; waiting calls fail with [`LockError::ShuttingDown`]. If the server
    /// is unavailable, this takes as long as the longest ttl among the releases and waiters; add a timeout if
    /// that is too long. Dropping the future only stops waiting: the releases continue.
    pub async fn shutdown(&self) {
        let ManagerInner {
            context, queues, ..
        } = &*self.inner;
        context.close();
        queues.wake_all();
        context.tasks.wait_idle().await;
        let _ = context.engine.drain().await;
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager")
            .field("server", &self.inner.context.server())
            .field("prefix", &self.inner.context.prefix())
            .finish_non_exhaustive()
    }
}
