use lock_runtime::distributed_lock;

#[distributed_lock(key = "shop")]
struct Shop;

#[distributed_lock(key = "shop")]
impl Shop {}

#[distributed_lock(key = "shop")]
const SHOP: Shop = Shop;

fn main() {
    let _ = SHOP;
}
