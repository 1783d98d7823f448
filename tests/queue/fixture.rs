//! Managers that share only the server, as separate processes would, and waiters on them.

use std::time::Duration;

use lock_runtime::{Config, Lock, LockError, LockGuard, LockManager};
use tokio::task::JoinHandle;

use lock_test_support::manager::connected;
use lock_test_support::time::patient;

pub const LONG: Duration = Duration::from_secs(60);

pub type Waiter = JoinHandle<Result<LockGuard, LockError>>;

pub async fn managers(url: &str, count: usize) -> Vec<LockManager> {
    managers_with(count, || patient(url)).await
}

pub async fn managers_with(count: usize, config: impl Fn() -> Config) -> Vec<LockManager> {
    let mut managers = Vec::new();
    for _ in 0..count {
        managers.push(connected(config()).await);
    }
    managers
}

/// Disables local handoff, so that locks are acquired strictly in arrival order.
pub fn fair(url: &str) -> Config {
    Config::new(url).local_handoff(0, Duration::ZERO)
}

pub fn waiter(lock: Lock) -> Waiter {
    tokio::spawn(lock.acquire())
}

pub fn waits(locks: &LockManager, key: &str) -> Waiter {
    waiter(locks.lock(key).wait(LONG))
}
