use lock_runtime::{LockError, distributed_lock};

trait Shop {
    #[distributed_lock(key = "order:<id>")]
    async fn ship(&self, id: u64) -> Result<u64, LockError>;
}

fn main() {}
