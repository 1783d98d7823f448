//! Waiting for something to happen, never for longer than it may take.

use std::future::Future;
use std::pin::pin;
use std::sync::{LazyLock, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use lock_runtime::Config;

/// What a busy machine may add to any measured time, beyond the stalls that a [`Stopwatch`] takes off.
pub const NOISE: Duration = Duration::from_millis(800);

pub const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Servers have the time that a busy machine takes to answer, where a test is not about those that don't.
pub fn patient(config: impl Into<Config>) -> Config {
    let long = Duration::from_secs(5);
    config.into().command_timeout(long).connect_timeout(long)
}

/// Measures how long something takes, less the time for which the machine has stalled meanwhile: for
/// upper bounds. A lower bound is measured with an [`Instant`].
#[derive(Clone, Copy)]
pub struct Stopwatch {
    start: Instant,
    stalled: Duration,
}

impl Stopwatch {
    pub fn start() -> Self {
        let stalled = stalled();
        Self {
            start: Instant::now(),
            stalled,
        }
    }

    pub fn elapsed(&self) -> Duration {
        let elapsed = self.start.elapsed();
        elapsed.saturating_sub(self.stalled())
    }

    /// How long the machine has stalled meanwhile: a lease may be lost to that.
    pub fn stalled(&self) -> Duration {
        stalled() - self.stalled
    }
}

/// A thread that does nothing but wake up, and how late it was in all: so late are others, too.
struct StallMeter {
    stalled: Duration,
    due: Instant,
}

impl StallMeter {
    const TICK: Duration = millis(2);
    /// A quiet machine's timers are late by less than that.
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

    /// With a stall that is not over yet.
    fn stalled(&self) -> Duration {
        let late = self.due.elapsed();
        match late > Self::GRAIN {
            true => self.stalled + late,
            false => self.stalled,
        }
    }
}

static METER: LazyLock<Mutex<StallMeter>> = LazyLock::new(StallMeter::start);

/// How long threads that were due have been kept from running, since the first call.
fn stalled() -> Duration {
    METER.lock().unwrap().stalled()
}

/// The future's output, which must come in time.
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
                Err(_) if left.is_zero() => panic!("nothing came within {limit:?} at {caller}"),
                Err(_) => {}
            }
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

/// Polls a future the first time, so that what it starts with has begun.
pub fn begin<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}
