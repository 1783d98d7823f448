use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "report", release = "lazy", mode = "read")]
async fn reader() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "partner", permits = 2, release = "lazy")]
async fn permit() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = ["account:1", "account:2"], release = "lazy")]
async fn several_keys() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "job", release = "lazy", min_hold = MIN_HOLD)]
async fn min_hold() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "job", renew = false, release = "lazy")]
async fn unrenewed() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "job", release = "lasy")]
async fn misspelled() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
