use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "0s")]
async fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", ttl = "9ms", wait = "0s", max_hold = "5ms", min_hold = "0s")]
async fn bill(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", ttl = "2000000h", wait = "2000000h")]
async fn pack(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", ttl = "8760h 1ms", max_hold = ("8760h 1ms"), min_hold = "8760h 1ms")]
async fn send(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
