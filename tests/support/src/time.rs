//! Time in tests. A machine may starve a test for seconds, so no verdict depends on its clock: limits on
//! waiting are as long as [`PATIENCE`], and a case that is about real time is [`Timed`].

use std::future::Future;
use std::pin::pin;
use std::sync::{LazyLock, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use lock_runtime::Config;

/// For how long tests wait for what must come. No starved machine takes longer, and a lock with the default
/// ttl of 30 s is not free by then unless it was released.
pub const PATIENCE: Duration = Duration::from_secs(25);

/// What a [`Timed`] case adds to each promised time for the machine's own delays.
pub const NOISE: Duration = Duration::from_millis(800);

/// The pause between two looks at what must come: hundreds of tests look at once.
const PAUSE: Duration = millis(8);

pub const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Sets timeouts long enough for a server on a busy machine, for tests that are not about slow servers.
pub fn patient(config: impl Into<Config>) -> Config {
    let config = config.into().command_timeout(millis(10_000));
    config.connect_timeout(PATIENCE).wait(PATIENCE)
}

/// A case that is about real time, while it runs. If it fails although nothing is wrong, the machine has
/// starved it: it then says so, and `tests/run.sh` repeats it alone. `tests/README.md` lists all such cases.
pub struct Timed {
    starved: Duration,
}

impl Timed {
    /// A case that was starved for less than this has no excuse.
    const MARGIN: Duration = millis(100);

    pub fn start() -> Self {
        Self { starved: starved() }
    }

    /// Returns how long the machine starved this case, if that may be why it failed.
    pub fn excuse(&self) -> Option<Duration> {
        let starved = starved() - self.starved;
        (starved > Self::MARGIN).then_some(starved)
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        if thread::panicking()
            && let Some(starved) = self.excuse()
        {
            println!("repeat alone: starved for {starved:?}");
        }
    }
}

/// Returns for how long runnable threads have been kept from running since the first call.
fn starved() -> Duration {
    METER.lock().unwrap().total().max(pressure())
}

/// Returns for how long some thread of the machine has waited for a core, if the kernel counts that.
fn pressure() -> Duration {
    let text = std::fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let total = text
        .split_whitespace()
        .find_map(|it| it.strip_prefix("total="));
    Duration::from_micros(total.and_then(|it| it.parse().ok()).unwrap_or_default())
}

/// A thread that only wakes up, and the total time by which it was late: other threads are late by as much.
struct Meter {
    late: Duration,
    due: Instant,
}

impl Meter {
    const TICK: Duration = millis(2);
    /// Timers of an idle machine are late by less than this.
    const GRAIN: Duration = millis(1);

    fn start() -> Mutex<Self> {
        thread::spawn(|| {
            loop {
                thread::sleep(Self::TICK);
                let mut meter = METER.lock().unwrap();
                meter.late = meter.total();
                meter.due = Instant::now() + Self::TICK;
            }
        });
        Mutex::new(Self {
            late: Duration::ZERO,
            due: Instant::now() + Self::TICK,
        })
    }

    /// Returns the total, including a delay that is not over yet.
    fn total(&self) -> Duration {
        let late = self.due.elapsed();
        match late > Self::GRAIN {
            true => self.late + late,
            false => self.late,
        }
    }
}

static METER: LazyLock<Mutex<Meter>> = LazyLock::new(Meter::start);

/// Returns the future's output; panics if it is not ready within [`PATIENCE`].
#[track_caller]
pub fn soon<F: Future>(future: F) -> impl Future<Output = F::Output> {
    within(PATIENCE, future)
}

/// Returns the future's output; panics if it is not ready within `limit`. Only a [`Timed`] case, or one in
/// virtual time, has a reason for another limit than that of [`soon`].
#[track_caller]
pub fn within<F: Future>(limit: Duration, future: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    async move {
        let output = tokio::time::timeout(limit, future).await;
        output.unwrap_or_else(|_| panic!("not ready within {limit:?} at {caller}"))
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

/// Looks until a condition is true, while other tasks run; panics after [`PATIENCE`].
#[track_caller]
pub fn until(mut is_so: impl FnMut() -> bool) -> impl Future<Output = ()> {
    soon(async move {
        while !is_so() {
            tokio::time::sleep(PAUSE).await;
        }
    })
}

/// Polls a condition until it is true; panics after [`PATIENCE`].
#[track_caller]
pub fn eventually(what: &str, is_so: impl FnMut() -> bool) {
    eventually_within(PATIENCE, what, is_so);
}

/// Polls a condition until it is true; panics after `limit`, for what servers do that take their time.
#[track_caller]
pub fn eventually_within(limit: Duration, what: &str, is_so: impl FnMut() -> bool) {
    assert!(
        comes_true_within(limit, is_so),
        "it is not so after {limit:?}: {what}"
    );
}

/// Polls a condition. Returns `true` if it became true within [`PATIENCE`].
pub fn comes_true(is_so: impl FnMut() -> bool) -> bool {
    comes_true_within(PATIENCE, is_so)
}

/// Polls a condition for as long as `limit`. Returns `true` if it became true.
pub fn comes_true_within(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if begun.elapsed() > limit {
            return false;
        }
        thread::sleep(PAUSE);
    }
}

/// Polls a future once, so that its first step has begun.
pub fn begin<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}
