//! `#[debug_handler]` above copies the body into a function without the guard.

use axum::debug_handler;
use axum::extract::Path;
use lock_runtime::{LockError, distributed_lock};

#[debug_handler]
#[distributed_lock(key = "order:<id>", guard = lock)]
async fn ship(Path(id): Path<u64>) -> Result<String, LockError> {
    Ok(format!("{id} under {}", lock.key()))
}

fn main() {}
