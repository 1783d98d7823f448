use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "report:<id>", mode = "shared")]
async fn unknown_mode(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report:<id>", mode = "read", permits = 5)]
async fn reader_with_permits(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "partner", permits = 0)]
async fn no_permits() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "partner", permits = 2047)]
async fn too_many_permits() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = [])]
async fn no_keys() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = ["account:<from>", "account:<ot>"])]
async fn misspelled(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "job", min_hold = "1m", max_hold = "30s")]
async fn held_too_long() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "job", min_hold = "1m", ttl = "30s", renew = false)]
async fn held_longer_than_its_lease() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "job", reentrant, max_waiters = -1)]
async fn without_values() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
