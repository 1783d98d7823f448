//! Tests of services: every failure on demand, and leases and waits in virtual time.
//!
//! Enable the feature `testing` in the dev-dependencies. The [guide](crate::guide::testing) tests a handler
//! with it. In a test with `#[tokio::test(start_paused = true)]`:
//!
//! ```
//! use lock_runtime::testing::{Fault, Locks};
//! use lock_runtime::{LockError, LostCause, distributed_lock};
//!
//! #[distributed_lock(key = "order:<id>")]
//! async fn ship(id: u64) -> Result<(), LockError> {
//!     std::future::pending().await
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let locks = Locks::new();
//! let _default = locks.set_default();
//!
//! let other = locks.hold_elsewhere("order:42").await;
//! assert!(ship(42).await.unwrap_err().is_busy()); // after a wait of 5 s, which takes no time
//! other.release().await.unwrap();
//!
//! let call = tokio::spawn(ship(42));
//! locks.wait_until_held("order:42").await;
//! locks.lose("order:42", LostCause::Expired);
//! assert!(call.await.unwrap().unwrap_err().is_lost());
//!
//! locks.fail_with(Fault::Down);
//! assert!(ship(42).await.unwrap_err().is_unavailable());
//! # }
//! ```
//!
//! # Virtual time
//!
//! With `#[tokio::test(start_paused = true)]`, which needs tokio's feature `test-util`, the clock of the
//! test's runtime jumps to the next timer whenever all tasks wait. The leases, waits and renewals of a
//! [`Locks`] run on that clock: a wait of 60 s ends at once, after 60 s of that clock, and a body that sleeps
//! for a day is renewed all day. Without `start_paused`, they take their time.
//!
//! The clock is that of the runtime in which the `Locks` was created, whose tasks also do the work of the I/O
//! thread. So create one in each test, use it within that runtime, and connect no other manager there: its
//! timers would run in real time. Managers of other runtimes in the process are not affected. The instants in
//! errors ([`LockError::Lost`](crate::LockError::Lost)) and the guards of threads outside of all runtimes use
//! real time.

#[cfg(feature = "store")]
mod check_store;
mod faulty_engine;
mod locks;
mod scope;

#[cfg(feature = "store")]
pub use crate::api::testing::check_store::{BrokenPromise, check_store};
pub use crate::api::testing::faulty_engine::Fault;
pub use crate::api::testing::locks::Locks;
pub use crate::api::testing::scope::DefaultGuard;
