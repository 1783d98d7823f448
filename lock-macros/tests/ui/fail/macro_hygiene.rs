//! A macro that writes the attribute above its caller's function sees neither the arguments nor the body.

use lock_runtime::{LockError, distributed_lock};

macro_rules! locked {
    ($function:item) => {
        #[distributed_lock(key = "order:<id>", guard = lock)]
        $function
    };
}

locked! {
    async fn ship(id: u64) -> Result<u64, LockError> {
        lock.ensure_valid_for(std::time::Duration::ZERO)?;
        Ok(id)
    }
}

fn main() {}
