//! The lock manager: connects, and hands out locks.

use crate::api::lock::Lock;
use crate::config::Config;
use crate::error::LockError;
use crate::lock::inner::{InnerSlot, ManagerInner};
use crate::trace;
use crate::util::clock::Clock;
use crate::util::io_thread::IoThread;
use crate::warning::Warning;
use std::fmt;
use std::sync::Arc;

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
    pub(crate) inner: Arc<ManagerInner>,
}

impl LockManager {
    /// Connects to the lock server that a URL or a [`Config`] names.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidConfig`] if the configuration can't be used, or the server refuses the
    /// credentials; [`LockError::Unavailable`] if there is no connection within the connect
    /// timeout; [`LockError::UnsafeServer`] if the configuration is [strict](Config::refuse_unsafe_servers) and the server
    /// is not safe for locks.
    pub async fn connect(config: impl Into<Config>) -> Result<LockManager, LockError> {
        let config = config.into();
        config.validate()?;
        let io = IoThread::start().map_err(|error| LockError::Unavailable {
            key: None,
            server: "the I/O thread".into(),
            source: Arc::new(error),
        })?;
        let slot = InnerSlot::default();
        let (engine, server) = config.open(io, slot.event_handler()).await?;
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

    /// A lock with this key, to be taken as its [`Lock`] says. Nothing is sent yet.
    pub fn lock(&self, key: impl Into<String>) -> Lock {
        Lock::new(Some(self.inner.clone()), "", key.into())
    }

    /// Looks for what makes the lock server unsafe: settings for which locks of the manager's ttl may be
    /// lost or had twice. None, if all is well.
    ///
    /// It asks each server that has a part in it, on a connection of its own, and takes no longer than
    /// connecting may take. What can't be found out is a warning, too: [`WarningKind::NotChecked`](crate::WarningKind).
    /// The user needs the permissions `+info +time +config|get`.
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

    /// Hands out no more locks, and waits until those dropped so far are released on the server.
    ///
    /// Call it last before the process ends: a guard that was dropped is released in the background,
    /// which ends with the process. Locks that are still held stay held; who waits for one gets
    /// [`LockError::ShuttingDown`]. With the server out of reach this takes as long as the longest
    /// ttl among the releases and waiters; put a timeout around it if that is too long. Dropping the future
    /// stops waiting, and nothing else.
    pub async fn shutdown(&self) {
        let ManagerInner {
            context,
            shared,
            queues,
            ..
        } = &*self.inner;
        context.close();
        queues.wake_all();
        shared.releaser.collect_soon();
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
