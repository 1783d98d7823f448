use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "30 parsecs", wait = 5, max_hold = "1.5h")]
async fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", ttl = "30", wait = "", max_hold = "5s 1m")]
async fn bill(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
