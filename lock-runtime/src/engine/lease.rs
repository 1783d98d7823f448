//! The deadline arithmetic of leases.

use crate::util::clock::{Timestamp, without_margin};
use std::time::Duration;

/// A time-bounded right: for how long this process may assume that it holds a lock.
///
/// The deadline counts from before the request was queued, so it is earlier than the expiry that the server
/// set when the request arrived. A [margin](without_margin) is subtracted, as in
/// [Redlock](https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    from: Timestamp,
    duration: Duration,
}

impl Lease {
    /// Returns the lease acquired by a request sent at `sent`.
    pub(crate) fn from_request(sent: Timestamp, ttl: Duration) -> Lease {
        Lease {
            from: sent,
            duration: without_margin(ttl),
        }
    }

    /// Returns the lease of a grant message that arrived at `received`. `asked` is when this process sent an
    /// earlier request, and `granted_after` the time from the server's reply to it until the grant.
    ///
    /// The lease counts from the earlier of the two grant times that these values imply, so a message that
    /// was in flight for long does not extend it.
    pub(crate) fn from_grant(
        received: Timestamp,
        asked: Timestamp,
        granted_after: Duration,
        ttl: Duration,
    ) -> Lease {
        let duration = granted_after.min(received.elapsed_since(asked)) + ttl;
        Lease::from_request(asked, duration)
    }

    /// Returns a limit that only this process measures.
    pub(crate) fn exactly(from: Timestamp, duration: Duration) -> Lease {
        Lease { from, duration }
    }

    /// Returns the remaining time at `now`; zero from the deadline on.
    pub(crate) fn remaining(&self, now: Timestamp) -> Duration {
        self.duration.saturating_sub(now.elapsed_since(self.from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::clock::Clock;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_deadline_is_sent_plus_ttl_less_the_margin() {
        let clock = Clock::manual();
        let lease = Lease::from_request(clock.now(), seconds(30));
        assert_eq!(lease.remaining(clock.now()), Duration::from_millis(29_698));
        clock.advance(seconds(29), seconds(29));
        assert_eq!(lease.remaining(clock.now()), Duration::from_millis(698));
        clock.advance(seconds(1), seconds(1));
        assert_eq!(lease.remaining(clock.now()), Duration::ZERO);
    }

    #[test]
    fn a_late_grant_message_does_not_extend_the_lease() {
        let clock = Clock::manual();
        let asked = clock.now();
        clock.advance(seconds(10), seconds(10));
        // Granted 4 s after the reply to the request; the message arrives 6 s later.
        let late = Lease::from_grant(clock.now(), asked, seconds(4), seconds(8));
        assert_eq!(late.remaining(clock.now()), Duration::from_millis(1_878));
        // A server whose clock was set forward in between reports an impossible time.
        let ahead = Lease::from_grant(clock.now(), asked, seconds(3600), seconds(8));
        assert_eq!(ahead.remaining(clock.now()), Duration::from_millis(7_818));
    }

    #[test]
    fn a_lease_ends_while_the_machine_sleeps() {
        let clock = Clock::manual();
        let lease = Lease::from_request(clock.now(), seconds(30));
        clock.advance(seconds(3600), Duration::ZERO);
        assert!(lease.remaining(clock.now()).is_zero());
    }

    #[test]
    fn a_ttl_shorter_than_the_margin_gives_no_lease() {
        let clock = Clock::manual();
        let lease = Lease::from_request(clock.now(), Duration::from_millis(2));
        assert!(lease.remaining(clock.now()).is_zero());
    }
}
