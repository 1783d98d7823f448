//! When a lease is renewed, and how long an attempt may take.
//!
//! All times are parts of what remains of the lease, not of its ttl: the lease of a grant is much shorter
//! than the ttl, and after a failure several more attempts must fit in before the deadline.

use crate::util::backoff::fraction;
use std::time::Duration;

/// The shortest pause between two attempts, and the shortest timeout of one.
const MIN_RETRY: Duration = Duration::from_millis(10);

/// Returns the time until the next renewal: a third of the remaining time, give or take a tenth.
pub(crate) fn delay(remaining: Duration) -> Duration {
    let tenth = remaining / 30;
    tenth * 9 + fraction(tenth * 2)
}

/// Returns the pause after a failed attempt.
pub(crate) fn retry_delay(remaining: Duration) -> Duration {
    let pause = (remaining / 8).max(MIN_RETRY);
    pause + fraction(pause)
}

/// Returns the timeout of one attempt, which leaves time for several more.
pub(crate) fn timeout(remaining: Duration) -> Duration {
    (remaining / 3).max(MIN_RETRY).min(remaining)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn renewal_is_sent_after_a_third_of_the_remaining_time() {
        for _ in 0..100 {
            let delay = delay(millis(3000));
            assert!((millis(900)..=millis(1100)).contains(&delay), "{delay:?}");
        }
    }

    #[test]
    fn several_attempts_fit_into_the_remaining_time() {
        // A grant of 2 s whose first renewal, after a third of it, gets no reply.
        for _ in 0..100 {
            let mut remaining = millis(2000 - 2000 / 3);
            let mut attempts = 0;
            while !remaining.is_zero() {
                attempts += 1;
                let took = timeout(remaining);
                let failed = remaining.saturating_sub(took);
                remaining = failed.saturating_sub(retry_delay(failed));
            }
            assert!(attempts >= 5, "{attempts} attempts");
        }
    }

    #[test]
    fn attempt_ends_with_the_lease() {
        for remaining in [millis(0), millis(4), millis(12), millis(30_000)] {
            assert!(timeout(remaining) <= remaining);
        }
    }
}
