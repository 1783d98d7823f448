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
//!
//! The call acquires a lease on `order:42`, runs the body while a watchdog renews the lease, and releases it
//! on every exit path: return, `?`, panic, and a future that is dropped. If the lease can no longer be
//! proven, the body is canceled at its next await point. The macro [`distributed_lock`] has a manual of all
//! options. Without it, [`LockManager::lock`] returns a [`Lock`], which runs a block or returns a
//! [`LockGuard`]:
//!
//! ```
//! use lock_runtime::{LockError, LockManager};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), LockError> {
//! let locks = LockManager::connect("memory://").await?;
//! let total = locks.lock("stock:7").run(async |_| 1 + 1).await?;
//!
//! let guard = locks.lock("order:42").wait(Duration::from_secs(1)).await?;
//! guard.ensure_valid_for(Duration::from_secs(2))?;
//! guard.release().await
//! # }
//! ```
//!
//! # Operating
//!
//! Each process reports to the lock server who it is, so that the program `locks`, of the crate `lock-cli`,
//! can say who holds a lock:
//!
//! ```text
//! $ locks show order:42
//! order:42     held for 6m 12s by orders 2.3.1 at web-7, pid 812, exclusive
//!   function   shop::ship (src/orders.rs:42)
//!   lease      23.8 s left   token e823e7be01c58c509a20e4619a300481
//!   waiting    1  billing 1.9.0 at web-3, pid 77   4.1 s   12 calls
//! ```
//!
//! `locks revoke`, or [`LockManager::revoke`], gets it back without two holders, and the crate `lock-admin`
//! shows all of it as a live page in a service. An alert on
//! `increase(distributed_lock_losses_total{cause!~"shut_down|revoked"}[10m]) > 0` reports lost leases, with
//! the feature `metrics` and the exporter of [its guide](guide::observability#metrics).
//!
//! # Guides
//!
//! - [Guarantees](guide::guarantees): what holds, the limits of any lease, and how to handle them.
//! - [Engines](guide::engines): Redis, PostgreSQL, etcd or ZooKeeper: what each survives, and what it costs.
//! - [Deployment](guide::deployment): servers, permissions, unsafe settings, shutdown, complete services.
//! - [Lazy release](guide::lazy_release): locks that stay with their process between calls.
//! - [Observability](guide::observability): numbers, events, metrics and traces.
//! - [Runbook](guide::runbook): what to do when a lock is stuck, lost or out of reach.
//! - [Recipes](guide::recipes): work that is done once, once per period, at a limited rate, or by a leader.
//! - [Testing](guide::testing): tests of a service without a server: its failures, and leases in virtual
//!   time.
//! - [Migration](guide::migration): from other lock crates, and from scripts of one's own.
//! - [Questions and answers](guide::faq).
//!
//! # Servers
//!
//! [`init`] and [`LockManager::connect`] take a URL or a [`Config`].
//!
//! | URL | locks are kept in | feature |
//! | --- | --- | --- |
//! | `redis://`, `redis+unix://` | one Redis or Valkey server | `redis`, by default |
//! | `redis-sentinel://`, `redis-cluster://` | the master that Sentinels name; a Redis Cluster | `redis`, by default |
//! | [`Config::quorum`] | a majority of independent deployments (Redlock) | `redis`, by default |
//! | `postgres://` | PostgreSQL | `postgres` |
//! | `mysql://`, `mariadb://` | MySQL or MariaDB | `mysql` |
//! | `etcd://` | etcd | `etcd` |
//! | `zookeeper://` | ZooKeeper | `zookeeper` |
//! | `sqlite://` | a file, which the processes of one machine share | `sqlite` |
//! | `memory://` | this process, for tests | |
//!
//! # Other features
//!
//! | feature | adds |
//! | --- | --- |
//! | `tls` | `rediss://`, `etcds://`, `zookeepers://`, `sslmode` and `ssl-mode`, with the public certificate authorities or your own |
//! | `axum`, `actix` | [`LockError`] as a response: 423 with `Retry-After`, 503 or 500, as problem+json |
//! | `tonic` | [`LockError`] as a gRPC status: `ABORTED`, `UNAVAILABLE` or `INTERNAL` |
//! | `tracing` | spans for each hold and for each wait, and events for lost leases, outages and unsafe servers |
//! | `metrics` | counters and histograms of all calls, holds and renewals, for Prometheus and others |
//! | `testing` | for your tests: every failure on demand, and leases and waits in virtual time |
//!
//! # Errors
//!
//! | error | meaning | what to do |
//! | --- | --- | --- |
//! | [`Busy`](LockError::Busy) | another holder had the lock for the whole `wait` | retry later, or raise `wait` |
//! | [`Lost`](LockError::Lost) | the lease ended before the body did | verify the last step of the body; see [`LostCause`] |
//! | [`Unavailable`](LockError::Unavailable) | the server gave no usable answer | retry later; the source names the cause |
//! | [`WouldDeadlock`](LockError::WouldDeadlock) | the body that calls holds the lock itself | `reentrant = true`, or call the inner function |
//! | [`Unsupported`](LockError::Unsupported) | the engine lacks an operation | use another engine or option |
//! | [`NotInitialized`](LockError::NotInitialized) | no [`init`] yet | call it once, at startup |
//! | [`ShuttingDown`](LockError::ShuttingDown) | after [`shutdown`] | let other instances serve the request |
//!
//! The others report invalid keys, options and configurations. [`LockError::is_retryable`] names those after
//! which the same call may succeed.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Some parts are for one engine alone.
#![cfg_attr(not(feature = "redis"), allow(dead_code))]

mod api;
mod config;
mod credentials;
mod engine;
mod error;
mod event;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;
pub mod guide;
mod integrations;
mod limit;
mod lock;
mod lock_info;
mod metrics;
mod options;
#[cfg(feature = "store")]
mod own_store;
mod process;
mod process_info;
mod revocation;
mod silence;
mod site;
mod stats;
#[cfg(test)]
mod tests;
mod trace;
#[cfg(any(feature = "postgres", feature = "store"))]
mod transaction_proof;
mod util;
mod warning;

#[cfg(all(doctest, feature = "actix", feature = "axum"))]
#[doc = include_str!("../../README.md")]
mod readme {}

pub use api::from_lock_error::FromLockError;
pub use api::global::{init, manager, shutdown, shutdown_within};
pub use api::guard::LockGuard;
pub use api::list::List;
pub use api::lock::Lock;
#[doc(hidden)]
pub use api::macro_support as __private;
pub use api::manager::LockManager;
#[cfg(feature = "mysql")]
pub use api::mysql;
#[cfg(feature = "postgres")]
pub use api::postgres;
pub use api::revoke::Revoke;
#[cfg(feature = "store")]
pub use api::store;
#[cfg(feature = "testing")]
pub use api::testing;
pub use config::Config;
pub use error::{Holder, LockError, LostCause};
pub use event::{LockEvent, Outcome};
pub use lock_info::{ClaimInfo, LeaseInfo, LockInfo, Mode};
#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("api/attribute.md")]
pub use lock_macros::distributed_lock;
pub use options::{OnLost, ReleaseMode, Report};
pub use process::ProcessId;
pub use process_info::ProcessInfo;
pub use revocation::Revocation;
pub use site::Site;
pub use stats::Stats;
#[cfg(any(feature = "postgres", feature = "store"))]
pub use transaction_proof::TransactionProof;
pub use warning::{Warning, WarningKind};
