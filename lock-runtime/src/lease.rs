//! Deadline arithmetic.

use crate::clock::Moment;
use std::time::Duration;

/// A right that ends by itself: how long this process may believe that it holds a lock.
///
/// The deadline counts from before the request was queued, so it lies ahead of the expiry that the
/// server set when the request arrived. From it a margin is taken, for clocks that run at different
/// rates and for the server's rounding to milliseconds, as in
/// [Redlock](https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    from: Moment,
    good_for: Duration,
}

impl Lease {
    /// The lease that a request sent at `sent` brought.
    pub(crate) fn new(sent: Moment, ttl: Duration) -> Lease {
        let margin = ttl / 100 + Duration::from_millis(2);
        Lease {
            from: sent,
            good_for: ttl.saturating_sub(margin),
        }
    }

    /// The lease that a grant brought, which nobody asked for at that moment: it was told `now`, and
    /// granted by the server `later` than it answered to a request that had been sent `then`.
    ///
    /// It counts from the earlier of what each of the two says, so that news that was long on its way
    /// gives no more time than is left.
    pub(crate) fn granted(now: Moment, then: Moment, later: Duration, ttl: Duration) -> Lease {
        let good_for = later.min(now.since(then)) + ttl;
        Lease::new(then, good_for)
    }

    /// A bound of our own, which no server measures: no margin.
    pub(crate) fn exactly(from: Moment, good_for: Duration) -> Lease {
        Lease { from, good_for }
    }

    /// What is left at `now`; zero from the deadline on.
    pub(crate) fn remaining(&self, now: Moment) -> Duration {
        self.good_for.saturating_sub(now.since(self.from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_deadline_is_sent_plus_ttl_less_the_margin() {
        let clock = Clock::manual();
        let lease = Lease::new(clock.now(), seconds(30));
        assert_eq!(lease.remaining(clock.now()), Duration::from_millis(29_698));
        clock.advance(seconds(29), seconds(29));
        assert_eq!(lease.remaining(clock.now()), Duration::from_millis(698));
        clock.advance(seconds(1), seconds(1));
        assert_eq!(lease.remaining(clock.now()), Duration::ZERO);
    }

    #[test]
    fn news_that_was_long_on_its_way_gives_no_more_than_is_left() {
        let clock = Clock::manual();
        let asked = clock.now();
        clock.advance(seconds(10), seconds(10));
        // Granted 4 s after the question was answered, told 6 s later.
        let late = Lease::granted(clock.now(), asked, seconds(4), seconds(8));
        assert_eq!(late.remaining(clock.now()), Duration::from_millis(1_878));
        // A server whose clock was set forward in between says more than can be.
        let ahead = Lease::granted(clock.now(), asked, seconds(3600), seconds(8));
        assert_eq!(ahead.remaining(clock.now()), Duration::from_millis(7_818));
    }

    #[test]
    fn a_lease_ends_while_the_machine_sleeps() {
        let clock = Clock::manual();
        let lease = Lease::new(clock.now(), seconds(30));
        clock.advance(seconds(3600), Duration::ZERO);
        assert!(lease.remaining(clock.now()).is_zero());
    }

    #[test]
    fn a_ttl_shorter_than_the_margin_gives_no_lease() {
        let clock = Clock::manual();
        let lease = Lease::new(clock.now(), Duration::from_millis(2));
        assert!(lease.remaining(clock.now()).is_zero());
    }
}
