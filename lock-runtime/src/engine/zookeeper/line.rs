//! The line of the claims of one lock: the children of its node, in the order of their numbers.

use crate::engine::token::Token;
use crate::limit::Limit;
use std::cmp::Ordering;

/// Where a token stands in its name: behind `_c_`, with hyphens, as Curator writes the identity of a claim.
const ID_LENGTH: usize = 36;

/// A child of the node of a lock.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    /// The last component of its path.
    pub(crate) name: String,
    number: i32,
    limit: Limit,
}

/// The claims of one lock, the earliest first. A claim holds the lock if fewer are before it than its limit and each
/// of theirs allow.
#[derive(Debug)]
pub(crate) struct Line(Vec<Member>);

/// Where a claim stands.
#[derive(Debug, PartialEq)]
pub(crate) enum Standing {
    Holds,
    Waits {
        /// The number of claims before this one that wait, too.
        ahead: usize,
        /// `true` if other claims wait.
        has_others: bool,
        /// The claims one of which must go, or share the lock, before this one can hold it.
        behind: Vec<String>,
    },
    /// The claim has no node.
    Absent,
}

/// Returns the beginning of the name of a claim's node. Curator's begin and end in the same way.
pub(crate) fn stem(token: Token) -> String {
    let mut buffer = [0; 37];
    let text = token.encode(&mut buffer);
    let (id, limit) = text
        .split_once('/')
        .map_or((text, None), |(id, n)| (id, Some(n)));
    let part = |from, to| id.get(from..to).unwrap_or_default();
    let id = [
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32),
    ]
    .join("-");
    match limit {
        Some(limit) => format!("_c_{id}-{limit}-lock-"),
        None => format!("_c_{id}-lock-"),
    }
}

impl Member {
    /// Parses the name of a child. A child without a number is no claim.
    pub(crate) fn parse(name: &str) -> Option<Member> {
        let digits = name.len().checked_sub(10)?;
        let (stem, digits) = (name.get(..digits)?, name.get(digits..)?);
        // A number that has passed 2³¹ is negative.
        let number = match stem.ends_with("--") {
            true => format!("-{digits}").parse().ok()?,
            false => digits.parse().ok()?,
        };
        Some(Member {
            name: name.to_owned(),
            number,
            limit: limit_of(stem),
        })
    }
}

/// Returns the limit in the name of a claim. Those of other clients are exclusive.
fn limit_of(stem: &str) -> Limit {
    let limit = || {
        let rest = stem.strip_prefix("_c_")?.get(ID_LENGTH..)?;
        let (limit, _) = rest.strip_prefix('-')?.split_once("-lock-")?;
        Limit::from_number(limit.parse().ok()?)
    };
    limit().unwrap_or(Limit::EXCLUSIVE)
}

impl Line {
    pub(crate) fn new(children: &[String]) -> Line {
        let mut members: Vec<_> = children
            .iter()
            .filter_map(|name| Member::parse(name))
            .collect();
        members.sort_by(|one, other| match other.number.wrapping_sub(one.number) {
            0 => one.name.cmp(&other.name),
            later if later > 0 => Ordering::Less,
            _ => Ordering::Greater,
        });
        Line(members)
    }

    /// Returns `true` if one more claim with that limit would hold the lock.
    pub(crate) fn has_room(&self, limit: Limit) -> bool {
        let lowest = self.0.iter().map(|member| member.limit).min();
        limit.fits(self.0.len(), lowest.unwrap_or(Limit::UNLIMITED))
    }

    /// Returns the name of the claim with that stem.
    pub(crate) fn find(&self, stem: &str) -> Option<&str> {
        let member = self.0.iter().find(|member| member.name.starts_with(stem));
        member.map(|member| &*member.name)
    }

    /// Returns the first claim if it may share the lock although its name does not say so: an exclusive holder may have
    /// been downgraded, which its data tells.
    pub(crate) fn first_if_exclusive(&self) -> Option<&str> {
        let first = self.0.first()?;
        first.limit.is_exclusive().then_some(&*first.name)
    }

    /// The first claim was downgraded.
    pub(crate) fn share_first(&mut self, limit: Limit) {
        if let Some(first) = self.0.first_mut() {
            first.limit = limit;
        }
    }

    /// Returns where the claim with that name stands.
    pub(crate) fn standing(&self, name: &str) -> Standing {
        let Some(place) = self.0.iter().position(|member| member.name == name) else {
            return Standing::Absent;
        };
        let holders = self.holders();
        if place < holders {
            return Standing::Holds;
        }
        Standing::Waits {
            ahead: place - holders,
            has_others: self.0.len() > holders + 1,
            behind: self.in_the_way(place),
        }
    }

    /// Returns `true` if the claim with that name would hold the lock if the other were gone.
    pub(crate) fn holds_without(&self, name: &str, other: &str) -> bool {
        let others = self.0.iter().filter(|member| member.name != other);
        Line(others.cloned().collect()).standing(name) == Standing::Holds
    }

    /// Returns the number of claims that hold the lock: all before the first that does not fit.
    fn holders(&self) -> usize {
        let mut lowest = Limit::UNLIMITED;
        let fits = |(count, member): &(usize, &Member)| {
            let fits = member.limit.fits(*count, lowest);
            lowest = lowest.min(member.limit);
            fits
        };
        self.0.iter().enumerate().take_while(fits).count()
    }

    /// Returns claims before the one at `place`, at least one of which must go before that one can hold the lock: the
    /// one with the lowest limit, and as many others as may hold the lock beside it; or, if no limit is lower than
    /// its own, that many.
    fn in_the_way(&self, place: usize) -> Vec<String> {
        let (before, own) = (&self.0[..place], self.0[place].limit);
        let lowest = before.iter().rposition(|member| {
            let lower = before.iter().all(|other| member.limit <= other.limit);
            lower && member.limit < own
        });
        let limit = lowest.map_or(own, |at| before[at].limit);
        let count = (0..place)
            .take_while(|count| limit.fits(*count, limit))
            .count();
        let others = (0..place).rev().filter(|at| Some(*at) != lowest);
        let chosen = lowest.into_iter().chain(others).take(count);
        chosen.map(|at| before[at].name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(limit: u16) -> Token {
        Token::random().with_limit(Limit::from_number(limit).unwrap_or(Limit::EXCLUSIVE))
    }

    fn names(limits: &[u16]) -> Vec<String> {
        let named = limits.iter().zip(7..);
        named
            .map(|(limit, number)| format!("{}{number:010}", stem(token(*limit))))
            .collect()
    }

    #[test]
    fn a_name_tells_number_and_limit() {
        for (limit, text) in [(1, ""), (2, "-2"), (2047, "-2047")] {
            let name = format!("{}0000000042", stem(token(limit)));
            let member = Member::parse(&name).unwrap();
            assert_eq!(member.number, 42);
            assert_eq!(member.limit.number().unwrap_or(1), limit);
            assert!(name.ends_with(&format!("{text}-lock-0000000042")));
        }
        let wrapped = Member::parse("x-lock--2147483648").unwrap();
        assert_eq!(wrapped.number, i32::MIN);
        let wrapped = Member::parse("x-lock--000000005").unwrap();
        assert_eq!(wrapped.number, -5);
        for foreign in [
            "_c_1b-lock-0000000003",
            "lock-0000000003",
            "a-__READ__0000000003",
        ] {
            let member = Member::parse(foreign).unwrap();
            assert_eq!((member.number, member.limit), (3, Limit::EXCLUSIVE));
        }
        for none in ["", "config", "lock-123", "größe-lock-00000ö0001"] {
            assert_eq!(Member::parse(none), None, "{none}");
        }
    }

    #[test]
    fn the_earliest_come_first_also_when_numbers_wrap() {
        let names: Vec<String> = [
            "b-lock--2147483647",
            "a-lock-2147483647",
            "c-lock--2147483648",
        ]
        .map(str::to_owned)
        .into();
        let line = Line::new(&names);
        let order: Vec<_> = line.0.iter().map(|member| &member.name[..1]).collect();
        assert_eq!(order, ["a", "c", "b"]);
    }

    #[test]
    fn claims_hold_the_lock_as_long_as_all_limits_allow() {
        let holders = |limits: &[u16]| Line::new(&names(limits)).holders();
        assert_eq!(holders(&[]), 0);
        assert_eq!(holders(&[1, 1, 2047]), 1);
        assert_eq!(holders(&[2047, 2047, 1, 2047]), 2);
        assert_eq!(holders(&[3, 3, 3, 3]), 3);
        assert_eq!(holders(&[5, 5, 3, 5]), 3);
        assert_eq!(holders(&[5, 5, 5, 3, 5]), 3);
        assert_eq!(holders(&[2047, 2, 2047, 2]), 2);
    }

    /// Whatever claims leave, as long as one of those that a claim waits for does not, it does not hold the lock.
    #[test]
    fn a_claim_waits_for_claims_without_whose_end_it_cannot_hold_the_lock() {
        let limits = [1, 2, 3, 2047];
        for code in 0..4_usize.pow(5) {
            let kinds: Vec<_> = (0..5)
                .map(|at| limits[code / 4_usize.pow(at) % 4])
                .collect();
            let names = names(&kinds);
            let last = &names[4];
            let Standing::Waits { behind, .. } = Line::new(&names).standing(last) else {
                continue;
            };
            assert!(!behind.is_empty(), "{kinds:?}");
            for gone in 0..16_u32 {
                let leaves = |at: usize| at < 4 && gone >> at & 1 == 1;
                let left: Vec<_> = (0..5).filter(|at| !leaves(*at)).collect();
                if behind
                    .iter()
                    .all(|name| left.iter().any(|at| names[*at] == *name))
                {
                    let left: Vec<_> = left.iter().map(|at| names[*at].clone()).collect();
                    let standing = Line::new(&left).standing(last);
                    assert_ne!(standing, Standing::Holds, "{kinds:?} without {gone:b}");
                }
            }
        }
    }

    #[test]
    fn readers_behind_a_writer_wait_for_it_alone() {
        let names = names(&[1, 2047, 2047, 2047]);
        let line = Line::new(&names);
        let Standing::Waits {
            behind,
            ahead,
            has_others,
        } = line.standing(&names[3])
        else {
            panic!("it waits");
        };
        assert_eq!(
            (behind, ahead, has_others),
            (vec![names[0].clone()], 2, true)
        );
        assert!(line.holds_without(&names[3], &names[0]));
        assert!(!line.holds_without(&names[3], &names[1]));
        let mut line = line;
        line.share_first(Limit::UNLIMITED);
        assert_eq!(line.standing(&names[3]), Standing::Holds);
    }
}
