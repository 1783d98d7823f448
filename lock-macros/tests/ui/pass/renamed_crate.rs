//! `crate = …`, for a runtime that is re-exported by another crate.

mod vendored {
    pub use lock_runtime as locks;
}

use vendored::locks::{LockError, OnLost, distributed_lock};

#[distributed_lock(key = "order:<id>", crate = crate::vendored::locks, on_lost = "continue", guard = lock)]
async fn ship(id: u64) -> Result<u64, LockError> {
    let _ = (lock, OnLost::Continue);
    Ok(id)
}

macro_rules! nightly {
    ($name:ident) => {
        #[$crate::vendored::locks::distributed_lock(key = "nightly", crate = $crate::vendored::locks)]
        async fn $name() -> Result<(), LockError> {
            Ok(())
        }
    };
}

nightly!(report);

fn main() {
    let _ = (ship(1), report());
}
