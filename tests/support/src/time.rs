//! Waiting for conditions, with limits that allow for a busy machine.

use std::future::Future;
use std::pin::pin;
use std::sync::{LazyLock, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use lock_runtime::Config;

/// The delay that a busy machine may add to any measured time, beyond the stalls that a [`Stopwatch`]
/// subtracts.
pub const NOISE: Duration = Duration::from_millis(800);

pub const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Sets timeouts long enough for a server on a busy machine, for tests that are not about slow servers.
pub fn patient(config: impl Into<Config>) -> Config {
    let long = Duration::from_secs(5);
    config.into().command_timeout(long).connect_timeout(long)
}

/// Measures a time without the stalls of the machine, for upper bounds; on a paused runtime, virtual time. Measure a
/// lower bound with tokio's [`Instant`](tokio::time::Instant).
#[derive(Clone, Copy)]
pub struct Stopwatch {
    start: tokio::time::Instant,
    stalled: Duration,
}

impl Stopwatch {
    pub fn start() -> Self {
        let stalled = stalled();
        Self {
            start: tokio::time::Instant::now(),
            stalled,
        }
    }

    pub fn elapsed(&self) -> Duration {
        let elapsed = self.start.elapsed();
        elapsed.saturating_sub(self.stalled())
    }

    /// Returns how long the machine has stalled since the start: a lease may be lost to that.
    pub fn stalled(&self) -> Duration {
        stalled() - self.stalled
    }
}

/// A thread that only wakes up, and the total time by which it was late: other threads are late by as much.
struct StallMeter {
    stalled: Duration,
    due: Instant,
}

impl StallMeter {
    const TICK: Duration = millis(2);
    /// Timers of an idle machine are late by less than this.
    const GRAIN: Duration = millis(1);

    fn start() -> Mutex<Self> {
        thread::spawn(|| {
            loop {
                thread::sleep(Self::TICK);
                let mut meter = METER.lock().unwrap();
                meter.stalled = meter.stalled();
                meter.due = Instant::now() + Self::TICK;
            }
        });
        Mutex::new(Self {
            stalled: Duration::ZERO,
            due: Instant::now() + Self::TICK,
        })
    }

    /// Returns the total, including a stall that is not over yet.
    fn stalled(&self) -> Duration {
        let late = self.due.elapsed();
        match late > Self::GRAIN {
            true => self.stalled + late,
            false => self.stalled,
        }
    }
}

static METER: LazyLock<Mutex<StallMeter>> = LazyLock::new(StallMeter::start);

/// Returns how long runnable threads have been kept from running since the first call.
fn stalled() -> Duration {
    METER.lock().unwrap().stalled()
}

/// Returns the future's output; panics if it is not ready within `limit`.
#[track_caller]
pub fn within<F: Future>(limit: Duration, future: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    async move {
        let watch = Stopwatch::start();
        let mut future = pin!(future);
        loop {
            let left = limit.saturating_sub(watch.elapsed());
            match tokio::time::timeout(left, &mut future).await {
                Ok(output) => return output,
                Err(_) if left.is_zero() => panic!("not ready within {limit:?} at {caller}"),
                Err(_) => {}
            }
        }
    }
}

/// Lets other tasks run. On a paused runtime, lets time pass: it does only while all tasks sleep.
pub async fn yield_in_time() {
    let begun = tokio::time::Instant::now();
    tokio::task::yield_now().await;
    if begun.elapsed().is_zero() {
        tokio::time::sleep(millis(1)).await;
    }
}

/// Polls a condition until it is true; panics after `limit`.
#[track_caller]
pub fn eventually(limit: Duration, what: &str, is_so: impl FnMut() -> bool) {
    assert!(comes_true(limit, is_so), "not within {limit:?}: {what}");
}

/// Polls a condition. Returns `true` if it became true within `limit`.
pub fn comes_true(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let watch = Stopwatch::start();
    loop {
        if is_so() {
            return true;
        }
        if watch.elapsed() > limit {
            return false;
        }
        thread::sleep(millis(3));
    }
}

/// Polls a future once, so that its first step has begun.
pub fn begin<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}
