//! Deadline arithmetic.

use crate::util::clock::Timestamp;
use std::time::Duration;

/// A time-bounded right: how long this process may assume that it holds a lock.
///
/// The deadline counts from before the request was queued, so it lies ahead of the expiry that the
/// server set when the request arrived. From it a margin is taken, for clocks that run at different
/// rates and for the server's rounding to milliseconds, as in
/// [Redlock](https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    from: Timestamp,
    duration: Duration,
}

impl Lease {
    /// The lease that a request sent at `sent` brought.
    pub(crate) fn from_request(sent: Timestamp, ttl: Duration) -> Lease {
        let margin = ttl / 100 + Duration::from_millis(2);
        Lease {
            from: sent,
            duration: ttl.saturating_sub(margin),
        }
    }

    /// The lease of a grant message that was `received` now. The server granted the lock
    /// `granted_after` it had answered a request that was sent at `asked`.
    ///
    /// It counts from the earlier of the two times that these values imply, so that a message that was
    /// in flight for long gives no more time than is left.
    pub(crate) fn from_grant(
        received: Timestamp,
        asked: Timestamp,
        granted_after: Duration,
        ttl: Duration,
    ) -> Lease {
        let duration = granted_after.min(received.elapsed_since(asked)) + ttl;
        Lease::from_request(asked, duration)
    }

    /// A limit of this process, which no server measures.
    pub(crate) fn without_margin(from: Timestamp, duration: Duration) -> Lease {
        Lease { from, duration }
    }

    /// The time left at `now`; zero from the deadline on.
    pub(crate) fn remaining(&self, now: Timestamp) -> Duration {
        self.duration.saturating_sub(now.elapsed_since(self.from))
    }
}

/// The lease of a hold, as far as it can be proven while renewals are on their way.
///
/// The server may carry out an unanswered renewal at any time, so also after a later one that it has
/// answered. Therefore the ttl does not change while any renewal is unanswered. Whichever of them the
/// server carries out last, the lock then lasts that ttl from then on, and so each answer proves that ttl
/// from before its own request was sent.
#[derive(Debug)]
pub(crate) struct HeldLease {
    lease: Lease,
    ttl: Duration,
    /// Renewals without an answer. One that has failed may be carried out all the same.
    unanswered: u32,
}

impl HeldLease {
    pub(crate) fn new(lease: Lease, ttl: Duration) -> HeldLease {
        HeldLease {
            lease,
            ttl,
            unanswered: 0,
        }
    }

    /// The time left at `now`; zero from the deadline on.
    pub(crate) fn remaining(&self, now: Timestamp) -> Duration {
        self.lease.remaining(now)
    }

    /// Agrees on the ttl of all renewals from `now` on. Returns `false`, and changes nothing, if a
    /// renewal with another ttl is unanswered.
    pub(crate) fn agree(&mut self, ttl: Duration, now: Timestamp) -> bool {
        if ttl != self.ttl && self.unanswered > 0 {
            return false;
        }
        self.ttl = ttl;
        // A renewal may shorten the lease to this, and its answer may be lost.
        let agreed = Lease::from_request(now, ttl);
        if agreed.remaining(now) < self.remaining(now) {
            self.lease = agreed;
        }
        true
    }

    /// A renewal is about to be sent.
    pub(crate) fn sends_renewal(&mut self) {
        self.unanswered += 1;
    }

    /// The server has answered that it carried out the renewal sent at `sent`.
    pub(crate) fn renewed(&mut self, sent: Timestamp, now: Timestamp) {
        self.unanswered = self.unanswered.saturating_sub(1);
        let renewed = Lease::from_request(sent, self.ttl);
        if renewed.remaining(now) > self.remaining(now) {
            self.lease = renewed;
        }
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
    fn news_that_was_long_on_its_way_gives_no_more_than_is_left() {
        let clock = Clock::manual();
        let asked = clock.now();
        clock.advance(seconds(10), seconds(10));
        // Granted 4 s after the question was answered, told 6 s later.
        let late = Lease::from_grant(clock.now(), asked, seconds(4), seconds(8));
        assert_eq!(late.remaining(clock.now()), Duration::from_millis(1_878));
        // A server whose clock was set forward in between says more than can be.
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

    /// A server that has one lock, and a client whose requests and answers take any time, or are lost.
    struct World {
        clock: Clock,
        held: HeldLease,
        /// Renewals that the server may carry out, and the answers that are on their way back.
        requests: Vec<(Timestamp, Duration)>,
        answers: Vec<Timestamp>,
        carried_out: (Timestamp, Duration),
    }

    impl World {
        fn pass(&self, time: Duration) {
            self.clock.advance(time, time);
        }

        fn on_server(&self) -> Duration {
            let (at, ttl) = self.carried_out;
            ttl.saturating_sub(self.clock.now().elapsed_since(at))
        }

        fn send(&mut self, ttl: Duration) {
            self.held.sends_renewal();
            self.requests.push((self.clock.now(), ttl));
        }

        /// Returns when the request was sent.
        fn carry_out(&mut self, request: usize) -> Timestamp {
            let (sent, ttl) = self.requests.swap_remove(request);
            self.carried_out = (self.clock.now(), ttl);
            sent
        }
    }

    /// Whatever is sent, lost, carried out late and answered late, and whatever ttls the guards have.
    #[test]
    fn a_lease_is_never_believed_for_longer_than_the_server_has_it() {
        let (mut renewed, mut refused) = (0, 0);
        for _ in 0..2_000 {
            let clock = Clock::manual();
            let ttls = [seconds(30), Duration::from_millis(800), seconds(2)];
            let below = |most: usize| {
                let drawn = crate::util::backoff::fraction(Duration::from_secs(most as u64));
                drawn.as_secs() as usize
            };
            let mut ttl = ttls[below(3)];
            let mut world = World {
                held: HeldLease::new(Lease::from_request(clock.now(), ttl), ttl),
                requests: Vec::new(),
                answers: Vec::new(),
                carried_out: (clock.now(), ttl),
                clock,
            };
            for _ in 0..60 {
                let now = world.clock.now();
                if world.held.remaining(now).is_zero() {
                    break;
                }
                match below(6) {
                    0 => world.send(ttl),
                    1 | 2 if !world.requests.is_empty() => {
                        let sent = world.carry_out(below(world.requests.len()));
                        if below(4) > 0 {
                            world.answers.push(sent);
                        }
                    }
                    3 if !world.answers.is_empty() => {
                        let sent = world.answers.swap_remove(below(world.answers.len()));
                        let before = world.held.remaining(now);
                        world.held.renewed(sent, now);
                        renewed += usize::from(world.held.remaining(now) > before);
                    }
                    4 => {
                        let next = ttls[below(3)];
                        if world.held.agree(next, now) {
                            ttl = next;
                        } else {
                            refused += 1;
                        }
                    }
                    _ => world.pass(crate::util::backoff::fraction(ttl / 4)),
                }
                let believed = world.held.remaining(world.clock.now());
                let had = world.on_server();
                assert!(believed <= had, "{believed:?} of {had:?}");
            }
        }
        assert!(renewed > 1_000 && refused > 1_000, "{renewed}, {refused}");
    }

    #[test]
    fn a_ttl_is_not_changed_while_a_renewal_is_unanswered() {
        let clock = Clock::manual();
        let (long, short) = (seconds(30), Duration::from_millis(800));
        let sent = clock.now();
        let mut held = HeldLease::new(Lease::from_request(sent, long), long);
        held.sends_renewal();
        assert!(!held.agree(short, clock.now()));
        assert!(held.agree(long, clock.now()));
        held.renewed(sent, clock.now());
        assert!(held.agree(short, clock.now()));
        assert!(held.remaining(clock.now()) <= short);
        held.sends_renewal();
        assert!(!held.agree(long, clock.now()));
    }

    #[test]
    fn an_earlier_renewal_answered_last_shortens_nothing() {
        let clock = Clock::manual();
        let first = clock.now();
        let mut held = HeldLease::new(Lease::from_request(first, seconds(30)), seconds(30));
        held.sends_renewal();
        clock.advance(seconds(10), seconds(10));
        held.sends_renewal();
        held.renewed(clock.now(), clock.now());
        let left = held.remaining(clock.now());
        held.renewed(first, clock.now());
        assert_eq!(held.remaining(clock.now()), left);
    }
}
