//! The global manager.

use crate::api::manager::LockManager;
#[cfg(feature = "testing")]
use crate::api::thread_default;
use crate::config::Config;
use crate::error::LockError;
use once_cell::sync::OnceCell;
use std::time::Duration;

static GLOBAL_MANAGER: OnceCell<LockManager> = OnceCell::new();

/// Connects the global manager, which annotated functions use by default. Call it once, at startup.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_runtime::LockError> {
/// lock_runtime::init("memory://").await?; // or "redis://127.0.0.1/"
/// assert!(lock_runtime::init("memory://").await.is_err());
/// # Ok(())
/// # }
/// ```
///
/// The manager serves every runtime of the process, and outlives the runtime that called `init`.
///
/// # Cancellation
///
/// If the future is dropped, there is no global manager, and `init` can be called again.
///
/// # Errors
///
/// [`LockError::AlreadyInitialized`] if a global manager exists already, and the errors of
/// [`LockManager::connect`].
pub async fn init(config: impl Into<Config>) -> Result<(), LockError> {
    if with_manager(|manager| manager.is_some()) {
        return Err(LockError::AlreadyInitialized);
    }
    let manager = LockManager::connect(config).await?;
    GLOBAL_MANAGER
        .set(manager)
        .map_err(|_| LockError::AlreadyInitialized)
}

/// Returns the global manager.
///
/// # Errors
///
/// [`LockError::NotInitialized`] until [`init`] has returned.
pub fn manager() -> Result<&'static LockManager, LockError> {
    #[cfg(feature = "testing")]
    if let Some(manager) = thread_default::get() {
        // A few bytes, in tests that ask for the manager.
        return Ok(Box::leak(Box::new(manager)));
    }
    GLOBAL_MANAGER.get().ok_or(LockError::NotInitialized)
}

/// Calls `work` with the global manager, or in a test with that of this thread.
pub(crate) fn with_manager<R>(work: impl FnOnce(Option<&LockManager>) -> R) -> R {
    #[cfg(feature = "testing")]
    if let Some(manager) = thread_default::get() {
        return work(Some(&manager));
    }
    work(GLOBAL_MANAGER.get())
}

/// Shuts down the global manager, with 5 s for bodies to finish. Call it last; see [`LockManager::shutdown`].
/// Without a global manager it does nothing.
pub async fn shutdown() {
    if let Ok(manager) = manager() {
        manager.shutdown().await;
    }
}

/// Shuts down the global manager, with that time for bodies to finish. Call it last; see
/// [`LockManager::shutdown_within`]. Without a global manager it does nothing.
pub async fn shutdown_within(grace: Duration) {
    if let Ok(manager) = manager() {
        manager.shutdown_within(grace).await;
    }
}
