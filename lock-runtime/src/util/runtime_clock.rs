//! The clocks of runtimes, which measure the locks of tests. A test can pause the clock of its runtime.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};
use std::time::Duration;
use tokio::runtime::{Handle, Id};
use tokio::time::Instant;

/// The runtimes whose clocks measure locks, once for each [`RuntimeClock`].
static RUNTIMES: RwLock<Vec<Id>> = RwLock::new(Vec::new());
/// Their number: a process without such tests reads nothing else.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The clock of a runtime. As long as it exists, the instants and deadlines of this runtime's tasks are
/// readings of that clock, and those of other runtimes are not.
#[derive(Debug)]
pub(crate) struct RuntimeClock {
    runtime: Id,
    start: Instant,
    /// The latest reading, in nanoseconds.
    latest: AtomicU64,
}

impl RuntimeClock {
    /// Returns the clock of the runtime, which must be the current one.
    pub(crate) fn of(runtime: &Handle) -> RuntimeClock {
        let runtime = runtime.id();
        runtimes().push(runtime);
        COUNT.fetch_add(1, Ordering::Relaxed);
        RuntimeClock {
            runtime,
            start: Instant::now(),
            latest: AtomicU64::new(0),
        }
    }

    /// Returns the time since the clock was created, in nanoseconds. Another thread, which has another clock,
    /// never falls behind this one: a lease that begins on it must not have ended already.
    pub(crate) fn elapsed(&self) -> u64 {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if current() == Some(self.runtime) {
            let elapsed = nanos(self.start.elapsed());
            self.latest.store(elapsed, Ordering::Relaxed);
            return elapsed;
        }
        let elapsed = nanos(self.start.into_std().elapsed());
        elapsed.max(self.latest.load(Ordering::Relaxed))
    }
}

impl Drop for RuntimeClock {
    fn drop(&mut self) {
        let mut runtimes = runtimes();
        if let Some(at) = runtimes.iter().position(|it| *it == self.runtime) {
            runtimes.swap_remove(at);
            COUNT.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Returns the present instant of the current runtime's clock, if that measures locks.
pub(crate) fn now() -> Option<Instant> {
    // Relaxed: a caller knows the locks of a test from the thread that created the clock.
    if COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let runtime = current()?;
    let runtimes = RUNTIMES.read().unwrap_or_else(PoisonError::into_inner);
    runtimes.contains(&runtime).then(Instant::now)
}

fn current() -> Option<Id> {
    Handle::try_current().ok().map(|runtime| runtime.id())
}

fn runtimes() -> RwLockWriteGuard<'static, Vec<Id>> {
    RUNTIMES.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::time;

    #[tokio::test(start_paused = true)]
    async fn instants_are_those_of_the_runtime_while_its_clock_exists() {
        let hour = Duration::from_secs(3600);
        let clocks = [
            RuntimeClock::of(&Handle::current()),
            RuntimeClock::of(&Handle::current()),
        ];
        tokio::time::advance(hour).await;
        for clock in clocks {
            assert_eq!(time::now(), Instant::now());
            let on_another_thread = std::thread::spawn(|| (time::now(), Instant::now()));
            let (now, real) = on_another_thread.join().unwrap();
            assert!(now <= real && real < Instant::now());
            assert_eq!(clock.elapsed(), 3_600_000_000_000);
            let clock = std::thread::spawn(move || (clock.elapsed(), clock));
            assert_eq!(clock.join().unwrap().0, 3_600_000_000_000);
        }
        assert!(Instant::now() - time::now() > hour / 2);
    }
}
