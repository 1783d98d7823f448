use lock_runtime::{LockError, distributed_lock};

/// Like axum's.
struct Path<T>(T);

#[distributed_lock(key = "order:<id>")]
async fn ship(id: Path<u64>) -> Result<u64, LockError> {
    Ok(id.0)
}

#[distributed_lock(key = "order:{id}", label = "bill <id>")]
async fn bill(id: Path<u64>) -> Result<u64, LockError> {
    Ok(id.0)
}

#[distributed_lock(key = id)]
async fn pack(id: Path<u64>) -> Result<u64, LockError> {
    Ok(id.0)
}

fn main() {}
