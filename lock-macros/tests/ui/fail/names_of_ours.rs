use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>")]
async fn ship(id: u64) -> Result<String, LockError> {
    let _ = id;
    Ok(__distributed_lock.key().to_owned())
}

fn main() {}
