use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", label = "user <_usr>")]
async fn ship(id: u64, _user: &str) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", label = "user <user")]
async fn bill(id: u64, _user: &str) -> Result<u64, LockError> {
    Ok(id)
}

struct User;

#[distributed_lock(key = "order:<id>", label = user)]
async fn pack(id: u64, user: User) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
