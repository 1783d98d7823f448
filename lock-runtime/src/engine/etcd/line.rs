//! The claims on one lock in their order: the first of them hold it, as many as their limits allow, and the others
//! wait.

use crate::engine::etcd::messages::{Event, KeyValue};
use crate::engine::token::Token;
use crate::limit::Limit;
use prost::bytes::Bytes;

/// The claims on a lock as of a revision.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// In the order of creation.
    entries: Vec<Entry>,
    revision: i64,
}

#[derive(Clone, Debug)]
struct Entry {
    key: Bytes,
    value: Bytes,
}

/// The place of a claim in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Holds,
    Waits {
        /// The number of waiters ahead.
        ahead: u64,
        has_others: bool,
    },
}

impl Entry {
    /// The limit of a claim. A client that writes no token of ours wants the lock for itself.
    fn limit(&self) -> Limit {
        let token = std::str::from_utf8(&self.value).ok().and_then(Token::parse);
        token.map_or(Limit::EXCLUSIVE, Token::limit)
    }
}

impl Line {
    /// Takes the keys in the order of their creation.
    pub(super) fn new(keys: Vec<KeyValue>, revision: i64) -> Line {
        let entry = |kv: KeyValue| Entry {
            key: kv.key,
            value: kv.value,
        };
        Line {
            entries: keys.into_iter().map(entry).collect(),
            revision,
        }
    }

    pub(super) fn revision(&self) -> i64 {
        self.revision
    }

    /// Returns the value of a key.
    pub(super) fn value_of(&self, key: &Bytes) -> Option<&Bytes> {
        let entry = self.entries.iter().find(|entry| entry.key == key);
        entry.map(|entry| &entry.value)
    }

    /// Returns the place of the claim with that key and value; `None` if there is none.
    pub(super) fn place_of(&self, key: &Bytes, value: &Bytes) -> Option<Place> {
        let mine = |entry: &Entry| entry.key == key && entry.value == value;
        let place = self.entries.iter().position(mine)?;
        let holders = self.holders();
        Some(match place.checked_sub(holders) {
            None => Place::Holds,
            Some(ahead) => Place::Waits {
                ahead: ahead as u64,
                has_others: self.entries.len() - holders > 1,
            },
        })
    }

    /// Returns `true` if one more claim would hold the lock at once.
    pub(super) fn has_room_for(&self, limit: Limit) -> bool {
        let count = self.entries.len();
        let lowest = self.entries.iter().map(Entry::limit).min();
        self.holders() == count && limit.fits(count, lowest.unwrap_or(Limit::UNLIMITED))
    }

    /// Each claim holds the lock if the one before it does, and the limits of all up to it allow that many.
    fn holders(&self) -> usize {
        let mut lowest = Limit::UNLIMITED;
        let waits = self.entries.iter().enumerate().position(|(count, entry)| {
            let fits = entry.limit().fits(count, lowest);
            lowest = lowest.min(entry.limit());
            !fits
        });
        waits.unwrap_or(self.entries.len())
    }

    /// Follows a change. Those that the line contains already are ignored.
    pub(super) fn apply(&mut self, event: &Event) {
        let Some(kv) = &event.kv else {
            return;
        };
        if kv.mod_revision <= self.revision {
            return;
        }
        let known = self.entries.iter().position(|entry| entry.key == kv.key);
        match (known, event.kind) {
            (Some(at), 1) => drop(self.entries.remove(at)),
            (Some(at), _) => self.entries[at].value = kv.value.clone(),
            (None, 0) => self.entries.push(Entry {
                key: kv.key.clone(),
                value: kv.value.clone(),
            }),
            (None, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kv(key: &'static str, limit: &str, revision: i64) -> KeyValue {
        KeyValue {
            key: Bytes::from_static(key.as_bytes()),
            create_revision: revision,
            mod_revision: revision,
            value: format!("0123456789abcdef0123456789abcdef{limit}").into(),
            lease: 1,
        }
    }

    fn event(kind: i32, kv: KeyValue) -> Event {
        Event { kind, kv: Some(kv) }
    }

    fn places(line: &Line) -> String {
        let place = |entry: &Entry| match line.place_of(&entry.key, &entry.value) {
            Some(Place::Holds) => 'h',
            Some(Place::Waits { ahead, .. }) => char::from(b'0' + ahead as u8),
            None => '?',
        };
        line.entries.iter().map(place).collect()
    }

    #[test]
    fn the_first_claims_hold_the_lock_as_their_limits_allow() {
        for (limits, expected) in [
            (&[""][..], "h"),
            (&["", ""], "h0"),
            (&["/2047", "/2047", "", "/2047"], "hh01"),
            (&["/2", "/3", "/3", "/2047"], "hh01"),
            (&["/3", "/3", "/2", "/3"], "hh01"),
            (&["/3", "/2047", "/3", "/3"], "hhh0"),
            (&["", "/2047"], "h0"),
        ] {
            let keys = ["a", "b", "c", "d"].iter().zip(limits).zip(1..);
            let keys = keys.map(|((key, limit), revision)| kv(key, limit, revision));
            assert_eq!(
                places(&Line::new(keys.collect(), 9)),
                expected,
                "{limits:?}"
            );
        }
    }

    #[test]
    fn a_claim_of_another_client_is_exclusive() {
        let foreign = KeyValue {
            value: Bytes::new(),
            ..kv("a", "", 1)
        };
        let line = Line::new(vec![foreign, kv("b", "/2047", 2)], 2);
        assert_eq!(places(&line), "h0");
        assert!(!line.has_room_for(Limit::UNLIMITED));
    }

    #[test]
    fn a_line_follows_its_changes() {
        let mut line = Line::new(vec![kv("a", "", 1), kv("b", "/2047", 2)], 2);
        line.apply(&event(0, kv("c", "/2047", 3)));
        assert_eq!(places(&line), "h01");
        // The holder lets readers enter.
        line.apply(&event(
            0,
            KeyValue {
                create_revision: 1,
                ..kv("a", "/2047", 4)
            },
        ));
        assert_eq!(places(&line), "hhh");
        assert!(line.has_room_for(Limit::UNLIMITED) && !line.has_room_for(Limit::EXCLUSIVE));
        // The same key, created again, is the last.
        line.apply(&event(1, kv("a", "", 5)));
        line.apply(&event(0, kv("a", "", 6)));
        assert_eq!(places(&line), "hh0");
        line.apply(&event(1, kv("b", "", 1)));
        assert_eq!(places(&line), "hh0", "an old change counts once");
    }
}
