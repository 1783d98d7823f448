//! The items that the expansion of `#[distributed_lock]` uses. Not for direct use: they change without
//! notice.

pub use crate::api::guarded::Guarded;
pub use core::time::Duration;
pub use std::format;
pub use std::string::{String, ToString};

use crate::api::guard::LockGuard;
use crate::api::lock::Lock;
use crate::api::manager::LockManager;
use crate::error::LockError;
use std::future::Future;
use std::pin::Pin;

/// Creates a lock of the global manager. If there is no global manager yet, acquiring the lock fails.
pub fn global_lock(template: &'static str, key: String) -> Lock {
    let inner = crate::api::global::manager()
        .ok()
        .map(|manager| manager.inner.clone());
    Lock::new(inner, template, key)
}

/// Creates a lock of `manager`.
pub fn lock_on(manager: &LockManager, template: &'static str, key: String) -> Lock {
    Lock::new(Some(manager.inner.clone()), template, key)
}

/// Acquires a lock. Boxed, so that annotated functions stay small.
pub fn acquire(lock: Lock) -> Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>> {
    Box::pin(lock.acquire())
}
