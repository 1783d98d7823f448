//! Waiting for something to happen, never for longer than it may take.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// What a busy machine may add to any measured time.
pub const NOISE: Duration = Duration::from_millis(800);

pub const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The future's output, which must come in time.
#[track_caller]
pub fn within<F: Future>(limit: Duration, future: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    async move {
        match tokio::time::timeout(limit, future).await {
            Ok(output) => output,
            Err(_) => panic!("nothing came within {limit:?} at {caller}"),
        }
    }
}

/// Looks again and again until it is so.
#[track_caller]
pub fn eventually(limit: Duration, what: &str, is_so: impl FnMut() -> bool) {
    assert!(comes_true(limit, is_so), "not within {limit:?}: {what}");
}

/// Whether it became so in time.
pub fn comes_true(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if start.elapsed() > limit {
            return false;
        }
        std::thread::sleep(millis(3));
    }
}

/// Polls a future the first time, so that what it starts with has begun.
pub fn begin<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}
