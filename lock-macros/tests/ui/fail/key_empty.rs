use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order:<>")]
async fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:{0}")]
async fn bill(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "")]
async fn pack(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
