//! Annotate an async fn, and it runs under a distributed lock.
//!
//! ```
//! use lock_runtime::{LockError, distributed_lock};
//!
//! #[distributed_lock(key = "order:<id>", ttl = "30s")]
//! async fn ship(id: u64) -> Result<String, LockError> {
//!     Ok(format!("order {id} shipped"))
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), LockError> {
//!     # let url = "memory://"; stringify!(
//!     let url = "redis://127.0.0.1/";
//!     # );
//!     lock_runtime::init(url).await?;
//!     assert_eq!(ship(42).await?, "order 42 shipped");
//!     lock_runtime::shutdown().await;
//!     Ok(())
//! }
//! ```

#[cfg(feature = "actix")]
mod actix;
#[cfg(feature = "axum")]
mod axum;
mod background;
mod backoff;
mod clock;
mod config;
mod driver;
mod engine;
mod error;
mod global;
mod guard;
mod hold;
mod inbox;
#[cfg(test)]
mod interleavings;
mod io;
mod lease;
mod lock;
mod locked;
mod manager;
mod open;
mod output;
mod owed;
mod panics;
#[cfg(any(feature = "actix", feature = "axum"))]
mod problem;
mod queue;
mod sync;
mod terms;
#[cfg(test)]
mod tests;
mod together;
mod trace;
mod wait;
mod warning;
mod watchdog;

#[doc(hidden)]
pub mod attribute;

#[cfg(all(doctest, feature = "actix", feature = "axum"))]
#[doc = include_str!("../../README.md")]
mod readme {}

pub use config::Config;
pub use error::{LockError, LostCause};
pub use global::{init, manager, shutdown};
pub use guard::LockGuard;
pub use lock::Lock;
#[doc = include_str!("attribute.md")]
pub use lock_macros::distributed_lock;
pub use manager::LockManager;
pub use output::FromLockError;
pub use terms::{OnLost, Release};
pub use warning::{Danger, Warning};
