//! The items that the expansion of `#[distributed_lock]` uses. Not for direct use: they change without
//! notice.

pub use crate::api::guarded::Guarded;
pub use core::time::Duration;
pub use std::format;
pub use std::string::{String, ToString};

use crate::api::guard::LockGuard;
use crate::api::lock::{Keys, Lock};
use crate::api::manager::LockManager;
use crate::error::LockError;
use std::future::Future;
use std::pin::Pin;

/// Creates a lock of the global manager. If there is no global manager yet, acquiring the lock fails.
pub fn global_lock(template: &'static str, key: String) -> Lock {
    let inner = crate::api::global::manager()
        .ok()
        .map(|manager| manager.inner.clone());
    Lock::new(inner, template, Keys::One(key))
}

/// Creates a lock of `manager`.
pub fn lock_on(manager: &LockManager, template: &'static str, key: String) -> Lock {
    Lock::new(Some(manager.inner.clone()), template, Keys::One(key))
}

/// Creates a lock of the global manager that is held when all keys are.
pub fn global_lock_all<const N: usize>(template: &'static str, keys: [String; N]) -> Lock {
    let inner = crate::api::global::manager()
        .ok()
        .map(|manager| manager.inner.clone());
    Lock::new(inner, template, Keys::All(keys.into()))
}

/// Creates a lock of `manager` that is held when all keys are.
pub fn lock_all_on<const N: usize>(
    manager: &LockManager,
    template: &'static str,
    keys: [String; N],
) -> Lock {
    Lock::new(
        Some(manager.inner.clone()),
        template,
        Keys::All(keys.into()),
    )
}

/// Acquires a lock. Boxed, so that annotated functions stay small.
pub fn acquire(lock: Lock) -> Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>> {
    Box::pin(lock.acquire())
}
