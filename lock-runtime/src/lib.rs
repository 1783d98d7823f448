//! Distributed locks for async functions: annotate a function, and each call runs under a lock.
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

#![cfg_attr(docsrs, feature(doc_cfg))]
// Some parts are for one engine alone.
#![cfg_attr(not(feature = "redis"), allow(dead_code))]

mod api;
mod config;
mod engine;
mod error;
pub mod guide;
#[cfg(any(feature = "actix", feature = "axum"))]
mod integrations;
mod limit;
mod lock;
mod options;
#[cfg(test)]
mod tests;
mod trace;
#[cfg(feature = "postgres")]
mod transaction_proof;
mod util;
mod warning;

#[cfg(all(doctest, feature = "actix", feature = "axum"))]
#[doc = include_str!("../../README.md")]
mod readme {}

pub use api::from_lock_error::FromLockError;
pub use api::global::{init, manager, shutdown, shutdown_within};
pub use api::guard::LockGuard;
pub use api::lock::Lock;
#[doc(hidden)]
pub use api::macro_support as __private;
pub use api::manager::LockManager;
#[cfg(feature = "postgres")]
pub use api::postgres;
pub use config::Config;
pub use error::{Holder, LockError, LostCause};
#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("api/attribute.md")]
pub use lock_macros::distributed_lock;
pub use options::{OnLost, ReleaseMode};
#[cfg(feature = "postgres")]
pub use transaction_proof::TransactionProof;
pub use warning::{Warning, WarningKind};
