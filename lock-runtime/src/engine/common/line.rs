//! The claims on one lock in their order: the first of them hold it, as many as their limits allow, and the
//! others wait.

use crate::engine::request::{QueueStatus, ServerTime};
use crate::engine::token::Token;
use crate::engine::view::{View, ViewedHolder};
use crate::limit::Limit;
use crate::lock_info::LeaseInfo;
use std::time::Duration;

/// The remaining time of the holder in replies to waiters: they need no poll at its end, since they are
/// notified.
const NO_EXPIRY_POLL: Duration = Duration::from_secs(24 * 60 * 60);

/// A claim as a server stores it.
pub(crate) trait Entry {
    fn limit(&self) -> Limit;

    /// Returns its token; `None` for another client's.
    fn token(&self) -> Option<Token>;
}

/// The claims on a lock, the earliest first. A claim holds the lock if fewer are before it than its limit and
/// each of theirs allow.
#[derive(Clone, Debug)]
pub(crate) struct Line<E>(Vec<E>);

/// The place of a claim in the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Holds,
    Waits {
        /// The number of waiters ahead.
        ahead: u64,
        /// `true` if other claims wait.
        has_others: bool,
        /// The first claim's token: it holds the lock, maybe with others that share it.
        first: Option<Token>,
    },
}

impl Place {
    /// Returns the reply to a claim that waits.
    pub(crate) fn status(self, server_time: ServerTime) -> QueueStatus {
        let (position, has_others, first) = match self {
            Place::Holds => (0, false, None),
            Place::Waits {
                ahead,
                has_others,
                first,
            } => (ahead, has_others, first),
        };
        QueueStatus {
            server_time,
            holder_ttl: NO_EXPIRY_POLL,
            position,
            has_others,
            holder: first.map(Token::holder).unwrap_or_default(),
            sole: first,
            is_recalled: false,
            poll_in: None,
        }
    }
}

impl<E: Entry> Line<E> {
    /// Takes the claims in their order.
    pub(crate) fn new(entries: Vec<E>) -> Line<E> {
        Line(entries)
    }

    pub(crate) fn entries(&self) -> &[E] {
        &self.0
    }

    pub(crate) fn entries_mut(&mut self) -> &mut Vec<E> {
        &mut self.0
    }

    /// Returns the place of the claim that `is_own` accepts; `None` if there is none.
    pub(crate) fn place_of(&self, is_own: impl Fn(&E) -> bool) -> Option<Place> {
        let at = self.0.iter().position(is_own)?;
        let holders = holders(self.0.iter());
        Some(match at.checked_sub(holders) {
            None => Place::Holds,
            Some(ahead) => Place::Waits {
                ahead: ahead as u64,
                has_others: self.0.len() - holders > 1,
                first: self.0.first().and_then(E::token),
            },
        })
    }

    /// Returns what is to be seen of the lock, with the first waiters, `most` of them at the most. `text` is
    /// the token of a claim, or what identifies another client. The server ends claims with sessions or
    /// leases that have no rest.
    pub(crate) fn view(&self, most: usize, text: impl Fn(&E) -> Box<str>) -> View {
        let (holders, waiters) = self.0.split_at(holders(self.0.iter()));
        let holder = |entry| ViewedHolder {
            token: text(entry),
            lease: LeaseInfo::WithSession,
            votes: None,
        };
        View {
            holders: holders.iter().map(holder).collect(),
            waiters: waiters.iter().take(most).map(&text).collect(),
            waiting: waiters.len() as u64,
        }
    }

    /// Returns `true` if one more claim with that limit would hold the lock at once.
    pub(crate) fn has_room_for(&self, limit: Limit) -> bool {
        let lowest = self.0.iter().map(E::limit).min();
        limit.fits(self.0.len(), lowest.unwrap_or(Limit::UNLIMITED))
    }

    /// Returns claims before the one that `is_own` accepts, at least one of which must go, or share the lock,
    /// before that one can hold it: the one with the lowest limit, and as many others as may hold the lock
    /// beside it; or, if no limit is lower than its own, that many.
    #[cfg(feature = "zookeeper")]
    pub(crate) fn blockers_of(&self, is_own: impl Fn(&E) -> bool) -> Vec<&E> {
        let Some(at) = self.0.iter().position(is_own) else {
            return Vec::new();
        };
        let (before, own) = (&self.0[..at], self.0[at].limit());
        let lowest = before.iter().rposition(|entry| {
            let is_lowest = before.iter().all(|other| entry.limit() <= other.limit());
            is_lowest && entry.limit() < own
        });
        let limit = lowest.map_or(own, |at| before[at].limit());
        let count = (0..at)
            .take_while(|count| limit.fits(*count, limit))
            .count();
        let others = (0..at).rev().filter(|at| Some(*at) != lowest);
        let chosen = lowest.into_iter().chain(others).take(count);
        chosen.map(|at| &before[at]).collect()
    }

    /// Returns the one claim without which the claim that `is_own` accepts holds the lock; `None` if it waits
    /// for others, too.
    #[cfg(feature = "zookeeper")]
    pub(crate) fn sole_blocker_of(&self, is_own: impl Fn(&E) -> bool) -> Option<&E> {
        let at = self.0.iter().position(&is_own)?;
        let [blocker] = self.blockers_of(is_own)[..] else {
            return None;
        };
        let others = self.0.iter().filter(|entry| !std::ptr::eq(*entry, blocker));
        (holders(others) >= at).then_some(blocker)
    }
}

/// Returns how many of the claims hold the lock: each does if the one before it does, and the limits of all
/// up to it allow that many.
fn holders<'a, E: Entry + 'a>(entries: impl Iterator<Item = &'a E>) -> usize {
    let mut lowest = Limit::UNLIMITED;
    let fits = |(count, entry): &(usize, &E)| {
        let fits = entry.limit().fits(*count, lowest);
        lowest = lowest.min(entry.limit());
        fits
    };
    entries.enumerate().take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limits of the claims `a`, `b`, and so on.
    fn line(limits: &[u16]) -> Line<(char, Limit)> {
        let limit = |limit: &u16| Limit::from_number(*limit).unwrap_or(Limit::EXCLUSIVE);
        Line::new(('a'..).zip(limits.iter().map(limit)).collect())
    }

    impl Entry for (char, Limit) {
        fn limit(&self) -> Limit {
            self.1
        }

        fn token(&self) -> Option<Token> {
            None
        }
    }

    fn places(line: &Line<(char, Limit)>) -> String {
        let place = |entry: &(char, Limit)| match line.place_of(|it| it.0 == entry.0) {
            Some(Place::Holds) => 'h',
            Some(Place::Waits { ahead, .. }) => char::from(b'0' + ahead as u8),
            None => '?',
        };
        line.entries().iter().map(place).collect()
    }

    #[test]
    fn the_first_claims_hold_the_lock_as_their_limits_allow() {
        for (limits, expected) in [
            (&[][..], ""),
            (&[1], "h"),
            (&[1, 1], "h0"),
            (&[1, 2047], "h0"),
            (&[2047, 2047, 1, 2047], "hh01"),
            (&[2, 3, 3, 2047], "hh01"),
            (&[3, 3, 2, 3], "hh01"),
            (&[3, 2047, 3, 3], "hhh0"),
            (&[5, 5, 5, 3, 5], "hhh01"),
            (&[2047, 2, 2047, 2], "hh01"),
        ] {
            assert_eq!(places(&line(limits)), expected, "{limits:?}");
        }
    }

    #[test]
    fn a_view_counts_the_waiters_that_it_does_not_return() {
        for (limits, most, expected) in [
            (&[][..], 9, ("", "", 0)),
            (&[1], 0, ("a", "", 0)),
            (&[2047, 2047, 1, 2047], 9, ("ab", "cd", 2)),
            (&[2047, 2047, 1, 2047], 1, ("ab", "c", 2)),
            (&[1, 2047, 2047], 0, ("a", "", 2)),
        ] {
            let view = line(limits).view(most, |entry| entry.0.to_string().into());
            let holders = view.holders.iter().map(|holder| &*holder.token);
            let found = (&*holders.collect::<String>(), &*view.waiters.concat());
            assert_eq!((found.0, found.1, view.waiting), expected, "{limits:?}");
        }
    }

    #[test]
    fn one_more_claim_has_room_if_all_hold_the_lock_then() {
        let limits = [1, 2, 3, 2047];
        for code in 0..4_usize.pow(4) {
            let kinds: Vec<_> = (0..4)
                .map(|at| limits[code / 4_usize.pow(at) % 4])
                .collect();
            let (last, before) = kinds.split_last().unwrap();
            let limit = line(&[*last]).entries()[0].limit();
            let holds = !places(&line(&kinds)).contains('0');
            assert_eq!(line(before).has_room_for(limit), holds, "{kinds:?}");
        }
    }

    /// Whatever claims leave, as long as one of those that a claim waits for does not, it does not hold the
    /// lock.
    #[test]
    #[cfg(feature = "zookeeper")]
    fn a_claim_waits_for_claims_without_whose_end_it_cannot_hold_the_lock() {
        let limits = [1, 2, 3, 2047];
        let is_own = |entry: &(char, Limit)| entry.0 == 'e';
        for code in 0..4_usize.pow(5) {
            let kinds: Vec<_> = (0..5)
                .map(|at| limits[code / 4_usize.pow(at) % 4])
                .collect();
            let line = line(&kinds);
            if line.place_of(is_own) == Some(Place::Holds) {
                continue;
            }
            let blockers = line.blockers_of(is_own);
            assert!(!blockers.is_empty(), "{kinds:?}");
            for gone in 0..16_u32 {
                let leaves = |at: usize| at < 4 && gone >> at & 1 == 1;
                let left = line.entries().iter().enumerate();
                let left = left.filter(|(at, _)| !leaves(*at));
                let left: Vec<_> = left.map(|(_, entry)| *entry).collect();
                let holds = Line::new(left.clone()).place_of(is_own) == Some(Place::Holds);
                if blockers.iter().all(|blocker| left.contains(blocker)) {
                    assert!(!holds, "{kinds:?} without {gone:b}");
                }
                if let Some(sole) = line.sole_blocker_of(is_own)
                    && left.len() == 4
                    && !left.contains(sole)
                {
                    assert!(holds, "{kinds:?} without {sole:?}");
                }
            }
        }
    }

    #[test]
    #[cfg(feature = "zookeeper")]
    fn readers_behind_a_writer_wait_for_it_alone() {
        let mut line = line(&[1, 2047, 2047, 2047]);
        let is_last = |entry: &(char, Limit)| entry.0 == 'd';
        let waits = Place::Waits {
            ahead: 2,
            has_others: true,
            first: None,
        };
        assert_eq!(line.place_of(is_last), Some(waits));
        assert_eq!(line.blockers_of(is_last), [&line.entries()[0]]);
        assert_eq!(line.sole_blocker_of(is_last), Some(&line.entries()[0]));
        line.entries_mut()[0].1 = Limit::UNLIMITED;
        assert_eq!(line.place_of(is_last), Some(Place::Holds));
    }

    #[test]
    #[cfg(feature = "zookeeper")]
    fn a_claim_behind_two_has_no_sole_blocker() {
        let line = line(&[1, 1, 2047]);
        assert_eq!(line.sole_blocker_of(|entry| entry.0 == 'c'), None);
        assert!(line.sole_blocker_of(|entry| entry.0 == 'b').is_some());
    }
}
