use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order:{idd}")]
async fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
