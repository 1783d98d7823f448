use lock_runtime::distributed_lock;

#[distributed_lock(key = "order:<id>")]
async fn ship(id: u64) -> String {
    id.to_string()
}

#[distributed_lock(key = "order:<id>")]
async fn bill(id: u64) {
    let _ = id;
}

fn main() {}
