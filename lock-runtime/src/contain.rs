//! Calls of code that is not ours, and may panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What the call returns, or none if it panics; the panic hook has told of it then.
pub(crate) fn contain<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}
