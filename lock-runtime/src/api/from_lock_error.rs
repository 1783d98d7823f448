//! Converts a lock error into the return value of an annotated function.

use crate::error::LockError;

/// A return type of an annotated function that can represent a [`LockError`].
///
/// Every `Result<T, E>` with `E: From<LockError>` implements it, including type aliases and
/// `anyhow::Result`. Implement it for your own return types:
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
    note = "a `Result<_, E>` can, if `E: From<LockError>`; implement that for an error type of your own",
    note = "for axum's and actix-web's responses and tonic's `Status`, use the feature `axum`, `actix` or `tonic`",
    note = "for a type of another crate, such as `StatusCode`, add `or_else = |error| Err(…)`, which \
            converts any lock error into the function's value",
    note = "for a return type of your own, implement `lock_runtime::FromLockError`"
)]
pub trait FromLockError {
    /// Returns the function's value for a lock that could not be acquired, or was lost.
    fn from_lock_error(error: LockError) -> Self;
}

// An error then names the return type, with these notes, instead of an unsatisfied `E: From<LockError>`.
#[diagnostic::do_not_recommend]
impl<T, E: From<LockError>> FromLockError for Result<T, E> {
    fn from_lock_error(error: LockError) -> Self {
        Err(error.into())
    }
}
