//! Connects a lock manager on a machine that may be busy.

use std::time::Duration;

use lock_runtime::{Config, LockError, LockManager};

use crate::time::Stopwatch;

/// Connects, and retries if a server does not reply within the connect timeout.
pub async fn connected(config: impl Into<Config>) -> LockManager {
    let config = config.into();
    let watch = Stopwatch::start();
    loop {
        match LockManager::connect(config.clone()).await {
            Ok(locks) => return locks,
            Err(LockError::Unavailable { .. }) if watch.elapsed() < Duration::from_secs(20) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
