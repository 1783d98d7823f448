use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>")]
async fn ship(id: u64) -> Result<u32, LockError> {
    let id: u32 = id;
    Ok(id)
}

#[distributed_lock(key = "order:<id>")]
async fn bill(id: u64) -> Result<(), LockError> {
    let _ = id;
}

fn main() {}
