//! Waiting for something to happen, never for longer than it may take.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
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

/// Adds up for how long the machine has stood still, as a sleep that should take 5 ms sees it.
pub struct Stalls {
    total: Arc<AtomicU64>,
}

impl Stalls {
    pub fn watch() -> Self {
        let total = Arc::new(AtomicU64::new(0));
        let watched = Arc::downgrade(&total);
        std::thread::spawn(move || {
            loop {
                let start = Instant::now();
                std::thread::sleep(millis(5));
                let stalled = start.elapsed().saturating_sub(millis(10));
                let Some(total) = watched.upgrade() else {
                    return;
                };
                total.fetch_add(stalled.as_micros() as u64, Relaxed);
            }
        });
        Self { total }
    }

    pub fn total(&self) -> Duration {
        Duration::from_micros(self.total.load(Relaxed))
    }
}
