use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order:<idd>")]
async fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<order>")]
async fn bill((id, tenant): (u64, u64)) -> Result<u64, LockError> {
    Ok(id + tenant)
}

#[distributed_lock(key = "order:<idd.to_string()>")]
async fn pack(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
