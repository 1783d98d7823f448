//! The global manager, which is configured at startup.

use crate::api::manager::LockManager;
use crate::config::Config;
use crate::error::LockError;
use once_cell::sync::OnceCell;

static GLOBAL_MANAGER: OnceCell<LockManager> = OnceCell::new();

/// Connects the global manager, which annotated functions use. Call it once, at startup.
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
/// It serves every runtime of the process, and outlives the one it was called on.
///
/// # Errors
///
/// [`LockError::AlreadyInitialized`] the second time, and those of [`LockManager::connect`].
pub async fn init(config: impl Into<Config>) -> Result<(), LockError> {
    if GLOBAL_MANAGER.get().is_some() {
        return Err(LockError::AlreadyInitialized);
    }
    let manager = LockManager::connect(config).await?;
    GLOBAL_MANAGER
        .set(manager)
        .map_err(|_| LockError::AlreadyInitialized)
}

/// The global manager.
///
/// # Errors
///
/// [`LockError::NotInitialized`] before [`init`] has returned.
pub fn manager() -> Result<&'static LockManager, LockError> {
    GLOBAL_MANAGER.get().ok_or(LockError::NotInitialized)
}

/// Hands out no more locks of the global manager, and waits until those dropped so far are released
/// on the server. Call it last; see [`LockManager::shutdown`]. Without a global manager it does
/// nothing.
pub async fn shutdown() {
    if let Some(manager) = GLOBAL_MANAGER.get() {
        manager.shutdown().await;
    }
}
