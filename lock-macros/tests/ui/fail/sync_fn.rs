use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>")]
fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[tokio::main]
#[distributed_lock(key = "program")]
async fn main() -> Result<(), LockError> {
    ship(1)?;
    Ok(())
}
