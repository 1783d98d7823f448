//! How long a session is proven to live.

use crate::engine::lease::Lease;
use crate::util::clock::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;

/// The greatest number of contacts to remember: those of several ticks.
const MAX_CONTACTS: usize = 64;

/// The proof that a session lives.
///
/// The leader ends a session when it has not heard of the client for the timeout. It hears of it from the
/// server to which the client is connected, at most half a tick after a contact. That server may have lost
/// its leader, and still reply to pings and reads. But a server that has a write committed is connected to
/// the leader, which has got the reports of contacts before that write, in order. So a write that was sent a
/// tick after a contact, and got a reply, proves the session for its timeout from that contact on.
///
/// A leader that was frozen past the timeout may carry out the writes that wait for it in the moment before
/// it ends the session. So a write counts only if the reply to the one before it came not so long ago that
/// the session could have ended meanwhile.
#[derive(Debug)]
pub(crate) struct Proof {
    timeout: Duration,
    tick: Duration,
    /// When requests were sent that got replies, in order.
    contacts: VecDeque<Timestamp>,
    /// When the replies to writes came, in order.
    replies: VecDeque<Timestamp>,
    /// A contact of which the leader has heard.
    proven: Timestamp,
}

impl Proof {
    /// Returns the proof of a session that the leader created after `asked`.
    pub(crate) fn new(asked: Timestamp, timeout: Duration, tick: Duration) -> Proof {
        Proof {
            timeout,
            tick,
            contacts: VecDeque::from([asked]),
            replies: VecDeque::new(),
            proven: asked,
        }
    }

    /// Records that a request sent at `sent` got a reply.
    pub(crate) fn contact(&mut self, sent: Timestamp) {
        remember(&mut self.contacts, sent, self.tick / 8);
    }

    /// Records that the session was continued on another connection, for which it was asked at `asked`.
    pub(crate) fn reconnected(&mut self, asked: Timestamp, timeout: Duration) {
        // Another server may let sessions live for less.
        self.timeout = self.timeout.min(timeout);
        self.contact(asked);
    }

    /// Records that a write sent at `sent` was carried out, by a reply that came at `replied`.
    pub(crate) fn write(&mut self, sent: Timestamp, replied: Timestamp) {
        let longest_freeze = self.timeout.saturating_sub(self.tick * 2);
        let shows_leader = |before: &Timestamp| {
            let before_sending = before.elapsed_since(sent).is_zero();
            before_sending && replied.elapsed_since(*before) <= longest_freeze
        };
        if self.replies.iter().any(shows_leader) {
            self.prove(sent);
        }
        remember(&mut self.replies, replied, self.tick / 8);
        self.contact(sent);
    }

    fn prove(&mut self, sent: Timestamp) {
        let reported = |contact: &&Timestamp| sent.elapsed_since(**contact) >= self.tick;
        if let Some(contact) = self.contacts.iter().rev().find(reported)
            && !contact.elapsed_since(self.proven).is_zero()
        {
            self.proven = *contact;
        }
    }

    /// Returns the lease of every lock of the session.
    pub(crate) fn lease(&self) -> Lease {
        Lease::from_request(self.proven, self.timeout)
    }
}

fn remember(all: &mut VecDeque<Timestamp>, at: Timestamp, unless_within: Duration) {
    let last = all.back();
    if last.is_none_or(|last| at.elapsed_since(*last) >= unless_within) {
        all.push_back(at);
    }
    if all.len() > MAX_CONTACTS {
        all.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::clock::Clock;

    const TICK: Duration = Duration::from_secs(2);
    const TIMEOUT: Duration = Duration::from_secs(20);

    fn pass(clock: &Clock, time: Duration) -> Timestamp {
        clock.advance(time, time);
        clock.now()
    }

    #[test]
    fn pings_and_reads_prove_nothing() {
        let clock = Clock::manual();
        let mut proof = Proof::new(clock.now(), TIMEOUT, TICK);
        let before = proof.lease().remaining(clock.now());
        for _ in 0..9 {
            proof.contact(pass(&clock, TICK / 2));
        }
        let left = proof.lease().remaining(clock.now());
        assert_eq!(left, before - TICK / 2 * 9);
    }

    #[test]
    fn a_write_proves_the_contact_a_tick_before_it() {
        let clock = Clock::manual();
        let mut proof = Proof::new(clock.now(), TIMEOUT, TICK);
        let contact = pass(&clock, TICK * 3);
        write(&mut proof, contact);
        write(&mut proof, pass(&clock, TICK / 2));
        let proven = |proof: &Proof| proof.proven.elapsed_since(contact);
        assert!(!contact.elapsed_since(proof.proven).is_zero());
        write(&mut proof, pass(&clock, TICK / 2));
        assert_eq!(proof.proven, contact);
        write(&mut proof, pass(&clock, TICK / 2));
        assert_eq!(proven(&proof), TICK / 2);
    }

    fn write(proof: &mut Proof, at: Timestamp) {
        proof.write(at, at);
    }

    /// The leader carries out what has waited for it, and only then finds that the session is over.
    #[test]
    fn writes_that_a_frozen_leader_finds_prove_nothing() {
        let clock = Clock::manual();
        let mut proof = Proof::new(clock.now(), TIMEOUT, TICK);
        write(&mut proof, pass(&clock, TICK));
        let proven = proof.proven;
        let mut waiting = Vec::new();
        for _ in 0..20 {
            proof.contact(pass(&clock, TICK / 2));
            waiting.push(clock.now());
        }
        pass(&clock, TICK / 4);
        for sent in waiting {
            proof.write(sent, clock.now());
        }
        assert_eq!(proof.proven, proven);
        // It goes on, so the session has not ended.
        write(&mut proof, pass(&clock, TICK / 4));
        assert!(clock.now().elapsed_since(proof.proven) < TICK * 2);
    }

    #[test]
    fn a_server_with_shorter_sessions_shortens_the_lease() {
        let clock = Clock::manual();
        let mut proof = Proof::new(clock.now(), TIMEOUT, TICK);
        for timeout in [TIMEOUT * 2, TIMEOUT / 4] {
            proof.reconnected(clock.now(), timeout);
        }
        assert!(proof.lease().remaining(clock.now()) < TIMEOUT / 4);
    }

    #[test]
    fn a_late_reply_takes_nothing_back() {
        let clock = Clock::manual();
        let mut proof = Proof::new(clock.now(), TIMEOUT, TICK);
        let early = pass(&clock, TICK);
        for _ in 0..500 {
            proof.contact(pass(&clock, TICK / 4));
        }
        write(&mut proof, clock.now());
        write(&mut proof, pass(&clock, TICK / 4));
        let left = proof.lease().remaining(clock.now());
        write(&mut proof, early);
        assert_eq!(proof.lease().remaining(clock.now()), left);
        assert!(left + TICK * 2 > TIMEOUT && proof.contacts.len() <= MAX_CONTACTS);
    }
}
