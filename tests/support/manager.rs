//! A lock manager, however busy the machine is.

use std::time::Duration;

use lock_runtime::{Config, LockError, LockManager};

use super::time::Stopwatch;

/// Connects, and tries again when a server that is there has not answered within the connect timeout.
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
