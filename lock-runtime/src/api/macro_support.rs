//! The items that the expansion of `#[distributed_lock]` uses. Not for direct use: they change without
//! notice.

pub use crate::api::guarded::Guarded;
pub use core::time::Duration;
pub use std::format;

use crate::api::global::with_manager;
use crate::api::guard::LockGuard;
use crate::api::lock::{Keys, Lock};
use crate::api::manager::LockManager;
use crate::error::LockError;
use crate::site::Site;
use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;

/// A value in a key or a label.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be in the key or the label of a lock",
    label = "this type does not implement `Display`",
    note = "take an extractor apart in the signature, as in `Path(id): Path<u64>`; of another type, name a field or a \
            method, as in `<order.id>`",
    note = "several keys are a list in brackets: `key = [\"account:<from>\", \"account:<to>\"]`",
    note = "a lock on keys whose number is known only at run time: `LockManager::lock_all`"
)]
pub trait LockKey: Display {}

#[diagnostic::do_not_recommend]
impl<T: Display + ?Sized> LockKey for T {}

/// Returns the key that an expression names.
pub fn key<T: LockKey + ?Sized>(value: &T) -> String {
    value.to_string()
}

/// Returns the value of a placeholder, as a type of which `format!` reports no second error.
pub fn value<'a, T: LockKey + ?Sized>(value: &'a &'a T) -> &'a dyn Display {
    value
}

/// Returns the site of an annotated function.
pub const fn site(
    template: &'static str,
    function: &'static str,
    file: &'static str,
    line: u32,
) -> Site {
    Site::new(template, function, file, line)
}

/// Creates a lock of the global manager. If there is no global manager yet, acquiring the lock fails.
pub fn global_lock(site: &'static Site, key: String) -> Lock {
    let inner = with_manager(|manager| Some(manager?.inner.clone()));
    Lock::new(inner, Some(site), Keys::One(key))
}

/// Creates a lock of `manager`.
pub fn lock_on(manager: &LockManager, site: &'static Site, key: String) -> Lock {
    Lock::new(Some(manager.inner.clone()), Some(site), Keys::One(key))
}

/// Creates a lock of the global manager that is held when all keys are.
pub fn global_lock_all<const N: usize>(site: &'static Site, keys: [String; N]) -> Lock {
    let inner = with_manager(|manager| Some(manager?.inner.clone()));
    Lock::new(inner, Some(site), Keys::All(keys.into()))
}

/// Creates a lock of `manager` that is held when all keys are.
pub fn lock_all_on<const N: usize>(
    manager: &LockManager,
    site: &'static Site,
    keys: [String; N],
) -> Lock {
    Lock::new(
        Some(manager.inner.clone()),
        Some(site),
        Keys::All(keys.into()),
    )
}

/// Acquires a lock. Boxed, so that annotated functions stay small.
pub fn acquire(lock: Lock) -> Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>> {
    Box::pin(lock.acquire())
}
