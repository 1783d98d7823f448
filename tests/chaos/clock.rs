//! The clocks by which everything is written down.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds on a clock that all processes of a machine share, that nobody sets, and that goes on at
/// its own rate in a process whose other clocks are made to run wrong.
pub fn now() -> u64 {
    read(ClockId::MonotonicRaw)
}

/// Nanoseconds on the clock that leases are measured with.
pub fn boot() -> u64 {
    read(ClockId::Boottime)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
