use std::pin::Pin;

use lock_runtime::distributed_lock;

#[distributed_lock(key = "order:<id>")]
async fn bill(id: u64) {
    let _ = id;
}

#[distributed_lock(key = "order:<id>", on_busy = ())]
async fn pack(id: u64) -> () {
    let _ = id;
}

#[distributed_lock(key = "order:<id>")]
fn send(id: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move { drop(id) })
}

fn main() {}
