//! The lease of a hold while renewals are in flight.

use crate::engine::lease::Lease;
use crate::util::clock::Timestamp;
use std::time::Duration;

/// The lease of a hold, as far as it is proven while renewals are in flight.
///
/// The server may execute a pending renewal, one without a reply, at any time, even after a later one to
/// which it has replied. Therefore the ttl does not change while any renewal is pending: whichever of them
/// the server executes last, the lock then lasts for the same ttl, so each reply proves that ttl from before
/// its own request was sent.
#[derive(Debug)]
pub(crate) struct HeldLease {
    lease: Lease,
    /// What was left of the lease when it was proven.
    whole: Duration,
    ttl: Duration,
    /// The number of renewals without a reply. The server may still execute a failed one.
    pending: u32,
}

impl HeldLease {
    pub(crate) fn new(lease: Lease, ttl: Duration, now: Timestamp) -> HeldLease {
        HeldLease {
            lease,
            whole: lease.remaining(now),
            ttl,
            pending: 0,
        }
    }

    /// Returns the remaining time at `now`; zero from the deadline on.
    pub(crate) fn remaining(&self, now: Timestamp) -> Duration {
        self.lease.remaining(now)
    }

    /// Returns the part of the lease that is left at `now`, from 0 to 1. The lease of a grant is shorter than
    /// its ttl.
    pub(crate) fn part_left(&self, now: Timestamp) -> f64 {
        self.remaining(now).as_secs_f64() / self.whole.as_secs_f64()
    }

    /// Returns for how long the server may keep the lock at `now`, if nothing more is sent: it may execute a
    /// pending renewal at any moment.
    pub(crate) fn on_server(&self, now: Timestamp) -> Duration {
        match self.pending {
            0 => self.remaining(now),
            _ => self.ttl.max(self.remaining(now)),
        }
    }

    /// Sets the ttl of all renewals from `now` on. Returns `false`, and changes nothing, if a renewal with
    /// another ttl is pending.
    pub(crate) fn agree(&mut self, ttl: Duration, now: Timestamp) -> bool {
        if ttl != self.ttl && self.pending > 0 {
            return false;
        }
        self.ttl = ttl;
        // A renewal may shorten the lease to this even if its reply is lost.
        let agreed = Lease::from_request(now, ttl);
        if agreed.remaining(now) < self.remaining(now) {
            self.prove(agreed, now);
        }
        true
    }

    /// Records that a renewal is about to be sent.
    pub(crate) fn sends_renewal(&mut self) {
        self.pending += 1;
    }

    /// Returns the ttl of all pending renewals.
    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Records the reply to a renewal, which proves the lease `renewed`.
    pub(crate) fn renewed(&mut self, renewed: Lease, now: Timestamp) {
        self.pending = self.pending.saturating_sub(1);
        if renewed.remaining(now) > self.remaining(now) {
            self.prove(renewed, now);
        }
    }

    /// Returns this lease, or `other` if that ends later.
    pub(crate) fn or_later(&self, other: Lease, now: Timestamp) -> Lease {
        match other.remaining(now) > self.remaining(now) {
            true => other,
            false => self.lease,
        }
    }

    fn prove(&mut self, lease: Lease, now: Timestamp) {
        self.whole = lease.remaining(now);
        self.lease = lease;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::clock::Clock;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A server with one lock, and a client whose requests and replies are delayed or lost.
    struct World {
        clock: Clock,
        held: HeldLease,
        /// The renewals that the server may still execute, and the replies in flight.
        requests: Vec<(Timestamp, Duration)>,
        replies: Vec<Timestamp>,
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

        /// Executes a request. Returns the time at which it was sent.
        fn carry_out(&mut self, request: usize) -> Timestamp {
            let (sent, ttl) = self.requests.swap_remove(request);
            self.carried_out = (self.clock.now(), ttl);
            sent
        }
    }

    /// Renewals are lost, executed late and replied to late, and guards have different ttls.
    #[test]
    fn a_lease_never_outlasts_the_servers() {
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
                held: HeldLease::new(Lease::from_request(clock.now(), ttl), ttl, clock.now()),
                requests: Vec::new(),
                replies: Vec::new(),
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
                            world.replies.push(sent);
                        }
                    }
                    3 if !world.replies.is_empty() => {
                        let sent = world.replies.swap_remove(below(world.replies.len()));
                        let before = world.held.remaining(now);
                        let lease = Lease::from_request(sent, world.held.ttl());
                        world.held.renewed(lease, now);
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
    fn a_pending_renewal_may_begin_a_whole_ttl() {
        let clock = Clock::manual();
        let ttl = seconds(10);
        let mut held = HeldLease::new(Lease::from_request(clock.now(), ttl), ttl, clock.now());
        clock.advance(seconds(4), seconds(4));
        assert_eq!(held.on_server(clock.now()), held.remaining(clock.now()));
        held.sends_renewal();
        assert_eq!(held.on_server(clock.now()), ttl);
    }

    #[test]
    fn a_ttl_is_not_changed_while_a_renewal_is_pending() {
        let clock = Clock::manual();
        let (long, short) = (seconds(30), Duration::from_millis(800));
        let sent = clock.now();
        let mut held = HeldLease::new(Lease::from_request(sent, long), long, clock.now());
        held.sends_renewal();
        assert!(!held.agree(short, clock.now()));
        assert!(held.agree(long, clock.now()));
        held.renewed(Lease::from_request(sent, long), clock.now());
        assert!(held.agree(short, clock.now()));
        assert!(held.remaining(clock.now()) <= short);
        held.sends_renewal();
        assert!(!held.agree(long, clock.now()));
    }

    #[test]
    fn the_late_reply_to_an_earlier_renewal_does_not_shorten_the_lease() {
        let clock = Clock::manual();
        let first = Lease::from_request(clock.now(), seconds(30));
        let mut held = HeldLease::new(first, seconds(30), clock.now());
        held.sends_renewal();
        clock.advance(seconds(10), seconds(10));
        held.sends_renewal();
        held.renewed(Lease::from_request(clock.now(), seconds(30)), clock.now());
        let left = held.remaining(clock.now());
        held.renewed(first, clock.now());
        assert_eq!(held.remaining(clock.now()), left);
    }

    /// A grant lasts for 2 s, and is renewed for the ttl after a third of that: in time.
    #[test]
    fn the_part_that_is_left_is_that_of_the_present_lease() {
        let clock = Clock::manual();
        let grant = Lease::from_request(clock.now(), seconds(2));
        let mut held = HeldLease::new(grant, seconds(30), clock.now());
        let part_left_after = |held: &HeldLease, time: Duration| {
            clock.advance(time, time);
            (held.part_left(clock.now()) * 100.0).round()
        };
        assert_eq!(part_left_after(&held, Duration::ZERO), 100.0);
        assert_eq!(part_left_after(&held, Duration::from_millis(680)), 66.0);
        held.sends_renewal();
        held.renewed(Lease::from_request(clock.now(), seconds(30)), clock.now());
        assert_eq!(part_left_after(&held, seconds(10)), 66.0);
        assert!(held.agree(Duration::from_millis(600), clock.now()));
        assert_eq!(part_left_after(&held, Duration::from_millis(300)), 49.0);
    }
}
