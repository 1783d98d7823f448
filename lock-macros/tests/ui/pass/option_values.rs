//! Values at the ends of their ranges, and expressions of every shape.

use std::time::Duration;

use lock_runtime::{LockError, LockManager, distributed_lock};

#[distributed_lock(
    key = "shortest",
    ttl = "10ms",
    wait = "0s",
    max_hold = "10ms",
    min_hold = "10ms",
    permits = 1,
    max_waiters = 0,
    replicas = 0
)]
async fn least() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(
    key = "longest",
    ttl = "8760h",
    wait = "18446744073709551615ms",
    max_hold = "8760h",
    min_hold = "8760h",
    permits = 2046,
    max_waiters = !0,
    replicas = 4_294_967_295
)]
async fn most() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = ("order:<id>"), ttl = ("30s"), renew = (false))]
async fn parentheses(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

/// Options with which a lock may be kept for the next call: one permit and one key are those of an exclusive lock.
#[distributed_lock(
    key = ["cart:<id>"],
    mode = "write",
    permits = 1,
    ttl = "1m",
    wait = "0s",
    max_hold = "30s",
    max_waiters = 8,
    reentrant = true,
    renew = true,
    replicas = 1,
    release = ("lazy")
)]
async fn lazy(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

/// The number of permits may be 1.
#[distributed_lock(key = "cart", permits = permits, release = "lazy")]
async fn lazy_permits(permits: u32) -> Result<(), LockError> {
    Ok(())
}

/// A key may begin with an argument, which may begin with `:` then, and have a `:` anywhere else.
#[distributed_lock(key = "<id>:")]
async fn argument(id: &str) -> Result<usize, LockError> {
    Ok(id.len())
}

#[distributed_lock(key = "order:".to_owned() + &id)]
async fn sum(id: String) -> Result<usize, LockError> {
    Ok(id.len())
}

#[distributed_lock(key = id as u64)]
async fn cast(id: u8) -> Result<u8, LockError> {
    Ok(id)
}

#[distributed_lock(key = if id == 0 { "none" } else { "some" }, ttl = Duration::from_secs(1) + Duration::from_secs(id))]
async fn choice(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

struct Holder {
    locks: LockManager,
}

impl std::ops::Deref for Holder {
    type Target = LockManager;

    fn deref(&self) -> &LockManager {
        &self.locks
    }
}

#[distributed_lock(key = "order:<id>", manager = Holder { locks: locks.clone() })]
async fn manager(locks: &LockManager, id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _ = (least(), most(), parentheses(1), argument("1"), sum(String::new()), cast(1), choice(1));
    let _ = (lazy(1), lazy_permits(1));
    let _ = async {
        let locks = LockManager::connect("memory://").await?;
        manager(&locks, 1).await
    };
}
