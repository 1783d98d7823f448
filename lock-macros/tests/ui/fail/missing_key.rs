use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(ttl = "30s")]
async fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock]
async fn bill(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock("order:<id>")]
async fn pack(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
