//! Who looks at the page, as the service's middleware says.

/// A person who may revoke locks, for a service that has no type of its own for it, and for actix, from whose
/// requests the page takes only this.
///
/// The authentication of the service puts one into the extensions of the request, and the page asks for it:
///
/// ```
/// # use lock_admin::{Admin, Operator};
/// # use lock_runtime::LockManager;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_runtime::LockError> {
/// # let locks = LockManager::connect("memory://").await?;
/// let admin = Admin::new(locks).allow_revoke(|parts| {
///     let operator = parts.extensions.get::<Operator>()?;
///     Some(operator.0.clone())
/// });
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator(
    /// The name that both processes log.
    pub String,
);
