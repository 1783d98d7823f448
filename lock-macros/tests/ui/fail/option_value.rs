use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", renew = 3, on_lost = "ignore", guard, wait = )]
async fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>" ttl = "30s")]
async fn bill(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", replicas = "1")]
async fn pay(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", replicas = -1)]
async fn store(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", replicas = 4294967296, max_waiters = 18446744073709551616)]
async fn wrap(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", replicas = 0.5, permits = -2, renew = 1, release = "never")]
async fn send(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
