//! Instants, deadlines and timers on the I/O thread's clock.

use std::time::Duration;
use tokio::time::Instant;

#[cfg(test)]
pub(crate) use crate::util::shuttle::virtual_time::{Sleep, Timeout, sleep_until, timeout_at};
#[cfg(not(test))]
pub(crate) use tokio::time::{Sleep, Timeout, sleep_until, timeout_at};

/// Returns the current instant of the I/O thread's clock. The caller's runtime may have another clock: tests
/// pause theirs, and only those with locks of their own are measured with it.
pub(crate) fn now() -> Instant {
    #[cfg(test)]
    if let Some(now) = crate::util::shuttle::virtual_time::now() {
        return now;
    }
    #[cfg(feature = "testing")]
    if let Some(now) = crate::util::runtime_clock::now() {
        return now;
    }
    Instant::from_std(std::time::Instant::now())
}

/// Returns the time since `then`.
pub(crate) fn elapsed_since(then: Instant) -> Duration {
    now().saturating_duration_since(then)
}

/// Returns the instant after `time`; at most 30 years from now, which every clock can represent.
pub(crate) fn deadline_in(time: Duration) -> Instant {
    deadline_after(now(), time)
}

/// Returns the instant `time` after `start`; at most 30 years after it.
pub(crate) fn deadline_after(start: Instant, time: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
    start + time.min(FAR)
}
