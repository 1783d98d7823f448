use lock_runtime::distributed_lock;

#[distributed_lock(key = "order:<id>")]
async fn ship(id: u64) -> String {
    id.to_string()
}

#[distributed_lock(key = "order:<id>")]
async fn pack(id: u64) -> Result<u64, std::fmt::Error> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>")]
async fn send(id: u64) -> std::io::Result<u64> {
    Ok(id)
}

struct Failure;

#[distributed_lock(key = "order:<id>")]
async fn store(id: u64) -> Result<u64, Failure> {
    Ok(id)
}

fn main() {}
