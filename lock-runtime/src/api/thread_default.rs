//! The manager that takes the place of the global one on a thread of a test.

use crate::api::manager::LockManager;
use std::cell::RefCell;

thread_local! {
    static DEFAULT: RefCell<Option<LockManager>> = const { RefCell::new(None) };
}

/// Returns the manager of this thread.
pub(crate) fn get() -> Option<LockManager> {
    DEFAULT.try_with(|manager| manager.borrow().clone()).ok()?
}

/// Makes that manager the one of this thread, and returns the one before.
pub(crate) fn replace(manager: Option<LockManager>) -> Option<LockManager> {
    DEFAULT.try_with(|before| before.replace(manager)).ok()?
}
