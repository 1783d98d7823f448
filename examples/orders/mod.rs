//! The part that the order services share: everything but the framework.

pub mod error;
pub mod options;
pub mod store;

pub use error::OrderError;
pub use options::Options;
pub use store::{NewOrder, Order, Orders};

use anyhow::Context;
use lock_runtime::distributed_lock;
use std::path::Path;

/// Opens the database. Instances that start at the same time set it up one after the other.
#[distributed_lock(key = "orders:setup")]
pub async fn open(path: &Path) -> anyhow::Result<Orders> {
    Orders::open(path).with_context(|| format!("cannot open `{}`", path.display()))
}

/// Resolves on ctrl-c or SIGTERM.
pub async fn asked_to_stop() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => return,
                _ = tokio::signal::ctrl_c() => return,
            }
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
