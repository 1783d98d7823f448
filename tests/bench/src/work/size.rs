//! The number of bytes that an annotation adds to the future of a function.

use crate::Bench;
use lock_runtime::{LockError, distributed_lock};

pub fn size(bench: &mut Bench) {
    let plain = size_of_val(&plain(1));
    let more = size_of_val(&locked(1)) - plain;
    bench.report.target(
        &format!("size of an annotated future, beside {plain} bytes without"),
        format!("{more} bytes more"),
        "≤ 400 bytes more",
        more <= 400,
    );
}

async fn plain(id: u64) -> Result<u64, LockError> {
    let page = [1_u8; 1024];
    tokio::task::yield_now().await;
    Ok(id + u64::from(page[7]))
}

#[distributed_lock(key = "order:<id>", ttl = "30s", wait = "5s")]
async fn locked(id: u64) -> Result<u64, LockError> {
    let page = [1_u8; 1024];
    tokio::task::yield_now().await;
    Ok(id + u64::from(page[7]))
}
