//! A page in your service that answers at a glance whether anything is wrong with its locks, which lock, and
//! who: for services that use [`lock_runtime`], with axum, actix, or whatever serves `http` requests.
//!
//! It shows what is wrong first, then all locks in use of all processes with their holders and the line of
//! those who wait, the last minute's timeline, the templates, processes and servers, and losses and other
//! events. It is live by server-sent events, and complete without script.
//!
//! ```
//! use lock_admin::Admin;
//! # use lock_runtime::LockManager;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lock_runtime::LockError> {
//! # let locks = LockManager::connect("memory://").await?;
//! let admin = Admin::new(locks.clone());
//! let request = http::Request::get("/").body(bytes::Bytes::new()).expect("it is valid");
//! assert!(admin.handle(request).await.status().is_success());
//! # Ok(())
//! # }
//! ```
//!
//! The features `axum` and `actix` add `Admin::axum` and `Admin::actix`, which a service mounts at any path,
//! behind its authentication: the page asks no viewer for a name. It is read-only, unless
//! [`Admin::allow_revoke`] names a person. [`Admin::redact`] hides keys.
//!
//! Nothing is asked of the lock server while no page is open. While one is, there is one look in each second
//! (10 s on etcd and ZooKeeper) for all viewers together: a ping, an ask to the processes to report, a
//! request for each lock in use, at most 1,000, and the reports. It never scans the server.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "actix")]
mod actix;
mod admin;
mod assets;
#[cfg(feature = "axum")]
mod axum;
mod body;
mod claim;
#[cfg(any(feature = "axum", feature = "actix"))]
mod folder;
mod fragment;
mod histogram;
mod history;
mod json;
mod live;
mod lock;
mod lock_page;
mod lock_table;
mod look;
mod markup;
mod operator;
mod options;
mod page;
mod problem;
mod process;
mod query;
mod recorder;
mod revoke;
mod sampler;
mod security;
mod state;
mod tables;
mod template;
#[cfg(test)]
mod tests;
mod text;
mod timeline;

#[cfg(all(doctest, feature = "actix", feature = "axum"))]
#[doc = include_str!("../README.md")]
mod readme {}

pub use admin::Admin;
pub use body::Body;
pub use operator::Operator;
pub use recorder::Recorder;
