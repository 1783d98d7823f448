//! The size that an annotation adds to a function's future.

use lock_runtime::{LockError, distributed_lock};

async fn plain(id: u64) -> Result<u64, LockError> {
    let page = [1_u8; 1024];
    tokio::task::yield_now().await;
    Ok(id + u64::from(page[7]))
}

#[distributed_lock(key = "order:{id}")]
async fn locked(id: u64) -> Result<u64, LockError> {
    let page = [1_u8; 1024];
    tokio::task::yield_now().await;
    Ok(id + u64::from(page[7]))
}

#[distributed_lock(
    key = "order:<id>",
    ttl = "30s",
    wait = "5s",
    on_busy = Ok(0),
    or_else = Err,
    guard = lock
)]
async fn with_options(id: u64) -> Result<u64, LockError> {
    let page = [lock.key().len() as u8; 1024];
    tokio::task::yield_now().await;
    Ok(id + u64::from(page[7]))
}

#[test]
fn annotated_future_stores_body_once() {
    let plain = size_of_val(&plain(1));
    for locked in [size_of_val(&locked(1)), size_of_val(&with_options(1))] {
        assert!(
            plain > 1024 && locked <= plain + 400,
            "{plain} bytes grow to {locked}"
        );
    }
}
