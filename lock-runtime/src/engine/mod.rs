//! Engines: the storage of locks.
//!
//! [`traits::Engine`] is the seam: the rest of the crate uses no other type of an engine. An engine knows
//! keys, tokens and times, and nothing of guards or tasks. Engine files import nothing from this one.

pub(crate) mod answers;
pub(crate) mod background_release;
pub(crate) mod common;
#[cfg(any(
    feature = "etcd",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "zookeeper"
))]
pub(crate) mod credentials;
pub(crate) mod error;
#[cfg(feature = "etcd")]
pub(crate) mod etcd;
pub(crate) mod event;
pub(crate) mod forward;
pub(crate) mod inspection;
pub(crate) mod late;
pub(crate) mod lease;
pub(crate) mod memory;
#[cfg(feature = "mysql")]
pub(crate) mod mysql;
pub(crate) mod open;
pub(crate) mod opening;
pub(crate) mod operations;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub(crate) mod recall;
#[cfg(feature = "redis")]
pub(crate) mod redis;
pub(crate) mod report_pace;
pub(crate) mod request;
pub(crate) mod requests;
pub(crate) mod retry;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
#[cfg(feature = "store")]
pub(crate) mod store;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod timeouts;
#[cfg(all(
    feature = "tls",
    any(
        feature = "etcd",
        feature = "mysql",
        feature = "postgres",
        feature = "redis",
        feature = "zookeeper"
    )
))]
pub(crate) mod tls;
pub(crate) mod token;
pub(crate) mod traits;
#[cfg(any(
    feature = "etcd",
    feature = "mysql",
    feature = "redis",
    feature = "sqlite",
    feature = "zookeeper"
))]
pub(crate) mod url;
pub(crate) mod view;
#[cfg(feature = "zookeeper")]
pub(crate) mod zookeeper;
