use lock_runtime::distributed_lock;

#[distributed_lock(kye = "order:<id>", ttl = 30, wait = "soon")]
fn ship(id: u64) -> u64 {
    id
}

fn main() {
    ship(1);
}
