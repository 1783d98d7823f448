use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = vec!["account:<from>", "account:<to>"])]
async fn transfer(from: u64, to: u64) -> Result<u64, LockError> {
    Ok(from + to)
}

#[distributed_lock(key = keys)]
async fn several(keys: Vec<String>) -> Result<usize, LockError> {
    Ok(keys.len())
}

#[distributed_lock(key = (from, to))]
async fn pair(from: u64, to: u64) -> Result<u64, LockError> {
    Ok(from + to)
}

fn main() {}
