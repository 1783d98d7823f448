//! The clocks that timestamp all records.

use rustix::time::{ClockId, clock_gettime};

/// Returns nanoseconds on a clock that all processes of a machine share. It is never set, and advances at its
/// own rate even in a process whose other clocks are made to run wrong.
pub fn now() -> u64 {
    read(ClockId::MonotonicRaw)
}

/// Returns nanoseconds on the clock that measures leases.
pub fn boot() -> u64 {
    read(ClockId::Boottime)
}

/// Returns [`now`] and [`boot`].
pub fn reading() -> (u64, u64) {
    (now(), boot())
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
