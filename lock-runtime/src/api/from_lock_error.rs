//! How a lock error leaves an annotated function.

use crate::error::LockError;

/// A return type that can carry a [`LockError`] out of an annotated function.
///
/// Every `Result<T, E>` with `E: From<LockError>` is one, type aliases and `anyhow::Result` among
/// them. Implement it for a return type of your own:
///
/// ```
/// use lock_runtime::{FromLockError, LockError, distributed_lock};
///
/// #[derive(Debug, PartialEq)]
/// enum Outcome {
///     Done,
///     Skipped,
/// }
///
/// impl FromLockError for Outcome {
///     fn from_lock_error(_: LockError) -> Self {
///         Outcome::Skipped
///     }
/// }
///
/// #[distributed_lock(key = "nightly")]
/// async fn nightly() -> Outcome {
///     Outcome::Done
/// }
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// assert_eq!(nightly().await, Outcome::Skipped); // no lock server is configured
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`#[distributed_lock]` cannot return a lock error from a function returning `{Self}`",
    label = "this type cannot carry a `LockError`",
    note = "return a `Result<_, E>` where `E: From<LockError>`",
    note = "or add `or_else = |error| …`, which makes the function's value out of any lock error",
    note = "or implement `lock_runtime::FromLockError` for the type"
)]
pub trait FromLockError {
    /// The function's value when the lock was not had, or was lost.
    fn from_lock_error(error: LockError) -> Self;
}

impl<T, E: From<LockError>> FromLockError for Result<T, E> {
    fn from_lock_error(error: LockError) -> Self {
        Err(error.into())
    }
}
