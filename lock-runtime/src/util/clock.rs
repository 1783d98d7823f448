//! The clocks that measure leases.

use std::time::{Duration, SystemTime};

/// A reading of two clocks in nanoseconds: the boot clock, which counts sleep of the machine, and the wall
/// clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timestamp {
    boot: u64,
    wall: u64,
}

impl Timestamp {
    /// Returns the time since `earlier`, by the clock that shows more.
    ///
    /// After a virtual machine was paused or restored, possibly only its wall clock has advanced. A wall
    /// clock set forward ends leases early, which is safe; set back, it changes nothing.
    pub(crate) fn elapsed_since(self, earlier: Timestamp) -> Duration {
        let boot = self.boot.saturating_sub(earlier.boot);
        let wall = self.wall.saturating_sub(earlier.wall);
        Duration::from_nanos(boot.max(wall))
    }

    /// Returns the time since `earlier` by the boot clock alone. Whoever waits for the end of another's lease
    /// must not believe a clock that was set.
    #[cfg(feature = "store")]
    pub(crate) fn observed_since(self, earlier: Timestamp) -> Duration {
        Duration::from_nanos(self.boot.saturating_sub(earlier.boot))
    }
}

/// Returns the time of a lease without its margin: clocks run at different rates, and servers round to
/// milliseconds.
pub(crate) fn without_margin(ttl: Duration) -> Duration {
    ttl.saturating_sub(ttl / 100 + Duration::from_millis(2))
}

/// Returns a time in nanoseconds, at most those of 584 years.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The source of timestamps. Tests advance a manual clock.
#[derive(Clone, Debug, Default)]
pub(crate) enum Clock {
    #[default]
    System,
    #[cfg(feature = "testing")]
    Runtime(std::sync::Arc<crate::util::runtime_clock::RuntimeClock>),
    #[cfg(test)]
    Manual(std::sync::Arc<std::sync::Mutex<Timestamp>>),
    /// The clock of the runtime, at that multiple of its rate.
    #[cfg(all(test, feature = "store"))]
    Rated(tokio::time::Instant, f64),
}

impl Clock {
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Clock::System => Timestamp {
                boot: nanos(boot_time()),
                wall: nanos(
                    SystemTime::now()
                        .duration_since(SystemTime::UNIX_EPOCH)
                        .unwrap_or_default(),
                ),
            },
            #[cfg(feature = "testing")]
            Clock::Runtime(clock) => {
                let time = clock.elapsed();
                Timestamp {
                    boot: time,
                    wall: time,
                }
            }
            #[cfg(test)]
            Clock::Manual(now) => *now.lock().unwrap(),
            #[cfg(all(test, feature = "store"))]
            Clock::Rated(start, rate) => {
                let time = nanos(start.elapsed().mul_f64(*rate));
                Timestamp {
                    boot: time,
                    wall: time,
                }
            }
        }
    }
}

#[cfg(unix)]
pub(crate) fn boot_time() -> Duration {
    use rustix::time::{ClockId, clock_gettime};

    // Apple's `CLOCK_MONOTONIC` counts sleep; Linux has a separate clock for that.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;

    let time = clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanos)
}

#[cfg(not(unix))]
pub(crate) fn boot_time() -> Duration {
    use once_cell::sync::Lazy;
    use std::time::Instant;

    static START: Lazy<Instant> = Lazy::new(Instant::now);
    START.elapsed()
}

#[cfg(test)]
impl Clock {
    pub(crate) fn manual() -> Clock {
        let start = Timestamp {
            boot: nanos(Duration::from_secs(1_000)),
            wall: nanos(Duration::from_secs(1_700_000_000)),
        };
        Clock::Manual(std::sync::Arc::new(std::sync::Mutex::new(start)))
    }

    /// Advances the clocks of a manual pair.
    pub(crate) fn advance(&self, boot: Duration, wall: Duration) {
        if let Clock::Manual(now) = self {
            let mut now = now.lock().unwrap();
            now.boot += nanos(boot);
            now.wall += nanos(wall);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn elapsed_time_is_that_of_the_clock_that_shows_more() {
        let clock = Clock::manual();
        let start = clock.now();
        clock.advance(SECOND, Duration::ZERO);
        assert_eq!(clock.now().elapsed_since(start), SECOND);
        clock.advance(Duration::ZERO, 3 * SECOND);
        assert_eq!(clock.now().elapsed_since(start), 3 * SECOND);
    }

    #[test]
    fn a_wall_clock_set_back_changes_nothing() {
        let later = Timestamp { boot: 5, wall: 10 };
        let set_back = Timestamp { boot: 6, wall: 1 };
        assert_eq!(set_back.elapsed_since(later), Duration::from_nanos(1));
    }

    #[test]
    fn the_system_clock_runs() {
        let clock = Clock::System;
        let start = clock.now();
        while clock.now().elapsed_since(start).is_zero() {
            std::hint::spin_loop();
        }
    }
}
