//! Managers that share nothing but the server, as processes would, and those who wait with them.

use std::time::Duration;

use lock_runtime::{Config, Lock, LockError, LockGuard, LockManager};
use tokio::task::JoinHandle;

use crate::support::manager::connected;

pub const LONG: Duration = Duration::from_secs(60);

pub type Waiter = JoinHandle<Result<LockGuard, LockError>>;

pub async fn managers(url: &str, count: usize) -> Vec<LockManager> {
    managers_with(count, || Config::new(url)).await
}

pub async fn managers_with(count: usize, config: impl Fn() -> Config) -> Vec<LockManager> {
    let mut managers = Vec::new();
    for _ in 0..count {
        managers.push(connected(config()).await);
    }
    managers
}

/// Nobody is served before somebody who came earlier.
pub fn fair(url: &str) -> Config {
    Config::new(url).local_handoff(0, Duration::ZERO)
}

pub fn waiter(lock: Lock) -> Waiter {
    tokio::spawn(lock.acquire())
}

pub fn waits(locks: &LockManager, key: &str) -> Waiter {
    waiter(locks.lock(key).wait(LONG))
}
