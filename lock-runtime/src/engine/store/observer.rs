//! Judges which leases have ended: those whose end the server's clock has passed, or, where no clock of the
//! server is known, that were seen unchanged for their whole length by the own one.
//!
//! A holder relies on its lease from before its request was sent, less a margin; an observer counts from when
//! the reply came that first showed it, with a margin on top. So it suffices that both clocks run at rates
//! that differ by less than 2 %, whatever they are set to.

use crate::engine::store::machine::{CALL, Judge};
use crate::engine::store::record::{Holder, Record, Waiter};
use crate::engine::token::Token;
use crate::util::clock::Timestamp;
use std::collections::HashMap;
use std::time::{Duration, SystemTime};
use uuid::Uuid;

/// For how long a reading of the server's clock is used, which may be set meanwhile, and the part of its age
/// by which it may have got ahead.
const MAX_AGE: Duration = Duration::from_secs(5);
const DRIFT: u32 = 50;
/// For how long the first waiter may keep others out before it is called, which doubles when it has answered.
const SILENCE: Duration = Duration::from_secs(2);
const LONGEST_SILENCE: Duration = Duration::from_secs(32);

/// What was seen of one lock, and when.
#[derive(Clone, Default)]
pub(crate) struct Observer {
    /// When the reply came that first showed this renewal.
    seen: HashMap<(Token, u32), Timestamp>,
    call: Option<(u32, Timestamp)>,
    /// The first waiter, since when it has been that without a call, and for how long it may be.
    first: Option<(Token, Timestamp, Duration)>,
}

impl Observer {
    /// Takes a reply that came at that time.
    pub(crate) fn note(&mut self, record: &Record, at: Timestamp) {
        let shown = |(token, renewals): &(Token, u32)| {
            let holder = record.holder(*token);
            holder.is_some_and(|it| it.renewals == *renewals)
        };
        self.seen.retain(|seen, _| shown(seen));
        for holder in &record.holders {
            let seen = (holder.token, holder.renewals);
            self.seen.entry(seen).or_insert(at);
        }
        if self.call.is_none_or(|(call, _)| call != record.call) {
            if record.is_calling()
                && let Some((_, _, silence)) = &mut self.first
            {
                *silence = (*silence * 2).min(LONGEST_SILENCE);
            }
            self.call = Some((record.call, at));
        }
        let first = record.waiters.first().map(|it| it.token);
        self.first = first.map(|first| match self.first {
            Some((token, _, silence)) if token == first && record.is_calling() => {
                (token, at, silence)
            }
            Some(seen) if seen.0 == first => seen,
            _ => (first, at, SILENCE),
        });
    }

    /// Returns how long a lease lasts yet, at the most; `time` is the server's.
    pub(crate) fn left(&self, holder: &Holder, now: Timestamp, time: Option<u64>) -> Duration {
        let seen = self.seen.get(&(holder.token, holder.renewals));
        let age = seen.map_or(Duration::ZERO, |seen| now.observed_since(*seen));
        let ttl = Duration::from_millis(holder.ttl.into());
        by_server(holder.until, time).unwrap_or(with_margin(ttl).saturating_sub(age))
    }

    fn call_left(&self, record: &Record, now: Timestamp, time: Option<u64>) -> Duration {
        // One that has just begun was not seen yet.
        let seen = self.call.filter(|(call, _)| *call == record.call);
        let age = seen.map(|(_, since)| now.observed_since(since));
        let observed = CALL.saturating_sub(age.unwrap_or_default());
        by_server(record.call_until, time).unwrap_or(observed)
    }

    /// Returns the time until a lease or a call ends.
    pub(crate) fn next_end(
        &self,
        record: &Record,
        now: Timestamp,
        time: Option<u64>,
    ) -> Option<Duration> {
        let holders = record.holders.iter().filter(|it| !it.left);
        let leases = holders.map(|it| self.left(it, now, time));
        let call = record
            .is_calling()
            .then(|| self.call_left(record, now, time));
        leases.chain(call).min()
    }
}

/// Returns the time that is left by the server's clock, which shows `time`, if that knows the end. Then the
/// own clock does not count, which may have jumped.
fn by_server(until: u64, time: Option<u64>) -> Option<Duration> {
    let known = time.filter(|_| until > 0);
    known.map(|time| Duration::from_micros(until.saturating_sub(time)))
}

/// Returns a time with the observer's margin.
fn with_margin(ttl: Duration) -> Duration {
    ttl + ttl / 100 + Duration::from_millis(2)
}

/// The server's clock, as the last reply has shown it, and when the request for that was sent.
#[derive(Clone, Copy, Default)]
pub(crate) struct ServerClock(Option<(u64, Timestamp)>);

impl ServerClock {
    pub(crate) fn note(&mut self, time: Option<u64>, sent: Timestamp) {
        self.0 = time.map(|time| (time, sent));
    }

    /// Returns `true` if the server shows its time, and has not for long: leases that begin now would have no
    /// end by it.
    pub(crate) fn is_stale(self, now: Timestamp) -> bool {
        self.0
            .is_some_and(|(_, sent)| now.elapsed_since(sent) >= MAX_AGE)
    }

    /// Returns the latest time that the server's clock may show now, in microseconds.
    pub(crate) fn latest(self, now: Timestamp) -> Option<u64> {
        let (time, sent) = self.0?;
        let age = now.elapsed_since(sent);
        let ahead = (age + age / DRIFT).as_micros() as u64;
        (age < MAX_AGE).then(|| time.saturating_add(ahead))
    }
}

/// A judge by what was seen.
pub(crate) struct Seen<'a> {
    pub(crate) observer: &'a Observer,
    pub(crate) now: Timestamp,
    /// The server's time in the reply with the record.
    pub(crate) time: Option<u64>,
    pub(crate) clock: ServerClock,
    /// The proofs that were ended for this step.
    pub(crate) ended: &'a [u64],
}

impl Judge for Seen<'_> {
    fn has_ended(&self, holder: &Holder) -> bool {
        self.observer.left(holder, self.now, self.time).is_zero()
    }

    fn may_go(&self, holder: &Holder) -> bool {
        holder.proof == 0 || self.ended.contains(&holder.proof)
    }

    fn call_has_ended(&self, record: &Record) -> bool {
        self.observer
            .call_left(record, self.now, self.time)
            .is_zero()
    }

    fn may_be_dead(&self, first: &Waiter) -> bool {
        let seen = self.observer.first.filter(|it| it.0 == first.token);
        seen.is_some_and(|(_, since, silence)| self.now.observed_since(since) >= silence)
    }

    fn nonce(&self) -> u32 {
        Uuid::new_v4().as_fields().0
    }

    fn clock(&self) -> u64 {
        let own = || {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            since.unwrap_or_default().as_micros() as u64
        };
        self.clock.latest(self.now).unwrap_or_else(own)
    }

    fn until(&self, time: Duration) -> u64 {
        let latest = self.clock.latest(self.now);
        latest.map_or(0, |at| {
            at.saturating_add(with_margin(time).as_micros() as u64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::store::machine::{Command, Reply, Want};
    use crate::limit::Limit;
    use crate::util::clock::Clock;

    const TTL: Duration = Duration::from_secs(10);

    fn held(judge: &dyn Judge) -> Record {
        let mut record = Record::default();
        let (token, ttl) = (Token::random(), 10_000);
        record.step(judge, Command::Try(Want { token, ttl }));
        record
    }

    fn seen<'a>(observer: &'a Observer, now: Timestamp) -> Seen<'a> {
        Seen {
            observer,
            now,
            time: None,
            clock: ServerClock::default(),
            ended: &[],
        }
    }

    #[test]
    fn a_lease_is_observed_for_its_whole_length_whatever_the_wall_clock_shows() {
        let (clock, mut observer) = (Clock::manual(), Observer::default());
        let record = held(&seen(&observer, clock.now()));
        let holder = &record.holders[0];
        observer.note(&record, clock.now());
        clock.advance(TTL, TTL * 100);
        observer.note(&record, clock.now());
        assert!(
            !seen(&observer, clock.now()).has_ended(holder),
            "the margin"
        );
        clock.advance(TTL / 50, Duration::ZERO);
        assert!(seen(&observer, clock.now()).has_ended(holder));
    }

    #[test]
    fn what_was_seen_of_an_earlier_lease_says_nothing_of_the_next() {
        let (clock, mut observer) = (Clock::manual(), Observer::default());
        let mut record = held(&seen(&observer, clock.now()));
        let token = record.holders[0].token;
        observer.note(&record, clock.now());
        clock.advance(TTL * 2, TTL * 2);
        // It has left, and is back.
        for command in [
            Command::Leave(token),
            Command::Wait(Want { token, ttl: 10_000 }),
        ] {
            record.step(&seen(&Observer::default(), clock.now()), command);
        }
        observer.note(&record, clock.now());
        assert!(!seen(&observer, clock.now()).has_ended(&record.holders[0]));
    }

    /// A dead writer would keep readers out for as long as others read.
    #[test]
    fn first_waiter_that_does_not_answer_makes_room_for_those_who_fit() {
        let (clock, mut observer) = (Clock::manual(), Observer::default());
        let mut record = Record::default();
        let want = |limit| Want {
            token: Token::random().with_limit(limit),
            ttl: 60_000,
        };
        let [holder, reader] = [(); 2].map(|()| want(Limit::UNLIMITED));
        let writer = want(Limit::EXCLUSIVE);
        for wants in [holder, writer, reader] {
            record.step(&seen(&observer, clock.now()), Command::Wait(wants));
        }
        let look = |record: &mut Record, observer: &mut Observer, of| {
            observer.note(record, clock.now());
            let reply = record.step(&seen(observer, clock.now()), Command::Wait(of));
            observer.note(record, clock.now());
            reply
        };
        let waits = |reply| matches!(reply, Reply::Waits { .. });
        for round in 1..=2 {
            assert!(waits(look(&mut record, &mut observer, reader)));
            assert!(!record.is_calling());
            clock.advance(SILENCE * round, Duration::ZERO);
            assert!(waits(look(&mut record, &mut observer, reader)));
            assert!(record.is_calling());
            if round == 1 {
                assert!(waits(look(&mut record, &mut observer, writer)));
                assert!(!record.is_calling(), "all have answered");
            }
        }
        clock.advance(CALL, Duration::ZERO);
        assert_eq!(look(&mut record, &mut observer, reader), Reply::Held);
        assert!(record.waiters.is_empty());
    }

    /// Commands that go together see what those before them have done, and the observer does not.
    #[test]
    fn a_call_that_has_just_begun_has_not_ended() {
        let (clock, mut observer) = (Clock::manual(), Observer::default());
        let mut record = held(&seen(&observer, clock.now()));
        for _ in 0..2 {
            let (token, ttl) = (Token::random(), 10_000);
            record.step(
                &seen(&observer, clock.now()),
                Command::Wait(Want { token, ttl }),
            );
        }
        let holder = record.holders[0].token;
        record.step(&seen(&observer, clock.now()), Command::Leave(holder));
        observer.note(&record, clock.now());
        clock.advance(TTL, TTL);
        for _ in 0..2 {
            let (token, ttl) = (Token::random(), 10_000);
            record.step(
                &seen(&observer, clock.now()),
                Command::Try(Want { token, ttl }),
            );
            assert!(record.is_calling(), "the first did not take up its grant");
            assert_eq!(record.waiters.len(), 1);
        }
    }

    /// The clock of an observer may jump ahead.
    #[test]
    fn a_lease_has_ended_once_the_clock_of_the_server_says_so() {
        let (clock, mut observer) = (Clock::manual(), Observer::default());
        let mut server = ServerClock::default();
        server.note(Some(1_000_000), clock.now());
        clock.advance(MAX_AGE * 4 / 5, MAX_AGE * 4 / 5);
        let record = held(&Seen {
            clock: server,
            ..seen(&observer, clock.now())
        });
        observer.note(&record, clock.now());
        let at = |time| Seen {
            time,
            ..seen(&observer, clock.now())
        };
        let until = record.holders[0].until;
        // Its clock may have got ahead by 2 % meanwhile.
        assert_eq!(until, 1_000_000 + 4_080_000 + 10_102_000);
        clock.advance(TTL * 2, TTL * 2);
        assert!(
            !at(Some(until - 1)).has_ended(&record.holders[0]),
            "the own clock counts"
        );
        assert!(at(Some(until)).has_ended(&record.holders[0]));
    }
}
