use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "0s")]
async fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", ttl = "9ms", wait = "0s", max_hold = "0s")]
async fn bill(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
