//! The names of keys and channels.

use super::hash_slot::{hash_tag_for, slot_of};
use std::fmt;

/// The naming scheme of keys and channels. A lock never has the name of another key, since no lock's key
/// begins with `::`.
#[derive(Clone)]
pub(crate) struct Keys {
    prefix: String,
    cluster: bool,
}

/// A key that belongs to a lock.
pub(crate) struct DerivedKey<'a> {
    prefix: &'a str,
    kind: &'a str,
    /// Puts the key into the lock's slot; empty without a cluster.
    tag: String,
    rest: &'a str,
}

impl Keys {
    /// Creates the names that begin with the prefix. In a cluster, all keys of a lock are in the lock's own
    /// slot; fails if the prefix prevents that.
    pub(crate) fn new(prefix: &str, cluster: bool) -> Result<Keys, &'static str> {
        let braces = prefix.split_once('{').map(|(_, rest)| rest.find('}'));
        match braces {
            Some(None | Some(0)) if cluster => Err(
                "the prefix has a `{` and nothing in braces, so that the keys of a lock would not be \
                 in one slot of the cluster; leave the brace out, or write something in braces: \
                 `{locks}:`",
            ),
            _ => Ok(Keys {
                prefix: prefix.to_owned(),
                cluster,
            }),
        }
    }

    pub(crate) fn in_cluster(&self) -> bool {
        self.cluster
    }

    /// Returns the key of the lock's queue, in order of arrival.
    pub(crate) fn queue<'a>(&'a self, lock: &'a str) -> DerivedKey<'a> {
        self.derived_key(lock, "queue:", self.key(lock))
    }

    /// Returns the key of the waiters' data.
    pub(crate) fn waiters<'a>(&'a self, lock: &'a str) -> DerivedKey<'a> {
        self.derived_key(lock, "waiters:", self.key(lock))
    }

    /// Returns the key that marks a token as canceled.
    pub(crate) fn tombstone(&self, lock: &str, token: &str) -> String {
        self.derived_key(lock, "gone:", token).to_string()
    }

    /// Returns the key of the counter of fencing tokens.
    pub(crate) fn fencing_counter(&self, lock: &str) -> String {
        self.derived_key(lock, "fence", "").to_string()
    }

    /// In a cluster, returns a key in the lock's slot that never exists. A script that names it fails as a
    /// whole with `TRYAGAIN` while the slot moves.
    pub(crate) fn absent_key(&self, lock: &str) -> Option<String> {
        self.cluster.then(|| self.tombstone(lock, ""))
    }

    /// Returns `true` if a lock with this prefix can have that name.
    pub(crate) fn has(&self, lock: &str) -> bool {
        lock.strip_prefix(&*self.prefix)
            .is_some_and(|key| !key.is_empty())
    }

    /// Returns a key that never exists, whatever the lock.
    pub(crate) fn never(&self) -> String {
        [&self.prefix, "::never"].concat()
    }

    /// Returns such a key in that slot of a cluster, unless a hash tag in the prefix puts all keys into
    /// another.
    pub(crate) fn never_in(&self, slot: u16) -> String {
        self.never() + &self.tag(slot)
    }

    /// Returns the keys of the reports of processes, and of their times; in a cluster in one slot.
    pub(crate) fn reports(&self) -> [String; 2] {
        let reports = [&self.prefix, "::reports"].concat();
        let key = |kind| self.derived_key(&reports, kind, "").to_string();
        ["reports", "processes"].map(key)
    }

    /// Returns the channel on which all processes are asked.
    pub(crate) fn asks(&self) -> String {
        [&self.prefix, "::asks"].concat()
    }

    /// Returns the name of the lock that is held if this key exists, or that is waited for.
    pub(crate) fn lock_of(&self, key: &str) -> Option<String> {
        let is_key = |key: &str| !key.is_empty() && !key.starts_with(':');
        let rest = key.strip_prefix(&*self.prefix)?;
        let Some(queued) = rest.strip_prefix("::queue:") else {
            return is_key(rest).then(|| key.to_owned());
        };
        let locked = match self.cluster {
            true => queued.strip_prefix('{')?.split_once('}')?.1,
            false => queued,
        };
        let lock = [&self.prefix, locked].concat();
        let is_queue = is_key(locked) && self.queue(&lock).to_string() == key;
        is_queue.then_some(lock)
    }

    /// Returns the glob of all keys, for `SCAN`.
    pub(crate) fn glob(&self) -> String {
        let mut glob = String::new();
        for c in self.prefix.chars() {
            if "*?[]\\".contains(c) {
                glob.push('\\');
            }
            glob.push(c);
        }
        glob + "*"
    }

    /// Returns the pattern of all keys and channels.
    pub(crate) fn all(&self) -> String {
        [&self.prefix, "*"].concat()
    }

    /// Returns the channel on which a process is notified of grants.
    pub(crate) fn channel(&self, process: &str) -> String {
        [&self.prefix, "::grants:", process].concat()
    }

    /// Returns the channel on which a process hears that others wait for locks that it may keep.
    pub(crate) fn recalls(&self, process: impl fmt::Display) -> String {
        format!("{}::recalls:{process}", self.prefix)
    }

    fn key<'a>(&self, lock: &'a str) -> &'a str {
        lock.strip_prefix(&*self.prefix).unwrap_or(lock)
    }

    fn derived_key<'a>(&'a self, lock: &str, kind: &'a str, rest: &'a str) -> DerivedKey<'a> {
        DerivedKey {
            prefix: &self.prefix,
            kind,
            tag: self.tag(slot_of(lock)),
            rest,
        }
    }

    /// Returns what puts a key into that slot; nothing without a cluster.
    fn tag(&self, slot: u16) -> String {
        match self.cluster {
            true => format!("{{{}}}", hash_tag_for(slot)),
            false => String::new(),
        }
    }
}

impl DerivedKey<'_> {
    /// Returns the parts that make up the key.
    pub(crate) fn parts(&self) -> [&str; 5] {
        [self.prefix, "::", self.kind, &self.tag, self.rest]
    }
}

impl fmt::Display for DerivedKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts().iter().try_for_each(|part| f.write_str(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn all_of(keys: &Keys, lock: &str) -> Vec<String> {
        let mut all = vec![
            lock.to_owned(),
            keys.queue(lock).to_string(),
            keys.waiters(lock).to_string(),
            keys.tombstone(lock, TOKEN),
            keys.fencing_counter(lock),
        ];
        all.extend(keys.absent_key(lock));
        all
    }

    #[test]
    fn names_on_one_server() {
        let keys = Keys::new("lock:", false).unwrap();
        let expected = [
            "lock:a{b}c",
            "lock:::queue:a{b}c",
            "lock:::waiters:a{b}c",
            &format!("lock:::gone:{TOKEN}"),
            "lock:::fence",
        ];
        assert_eq!(all_of(&keys, "lock:a{b}c"), expected);
        assert_eq!(keys.channel("p"), "lock:::grants:p");
        assert_eq!(keys.never_in(1507), "lock:::never");
        assert_eq!(keys.reports(), ["lock:::reports", "lock:::processes"]);
        assert_eq!(keys.asks(), "lock:::asks");
    }

    #[test]
    fn names_in_a_cluster() {
        let keys = Keys::new("lock:", true).unwrap();
        let tag = hash_tag_for(slot_of("lock:a{b}c"));
        let expected = [
            "lock:a{b}c".to_owned(),
            format!("lock:::queue:{{{tag}}}a{{b}}c"),
            format!("lock:::waiters:{{{tag}}}a{{b}}c"),
            format!("lock:::gone:{{{tag}}}{TOKEN}"),
            format!("lock:::fence{{{tag}}}"),
            format!("lock:::gone:{{{tag}}}"),
        ];
        assert_eq!(all_of(&keys, "lock:a{b}c"), expected);
        assert_eq!(keys.channel("p"), "lock:::grants:p");
        assert_eq!(keys.never_in(1507), "lock:::never{2245}");
        assert_eq!(slot_of(&keys.never_in(1507)), 1507);
    }

    #[test]
    fn reports_are_in_one_slot() {
        for prefix in ["lock:", "", "}", "{app}:", "x{a}{"] {
            let keys = Keys::new(prefix, true).unwrap();
            let slot = slot_of(&format!("{prefix}::reports"));
            assert_eq!(
                keys.reports().map(|key| slot_of(&key)),
                [slot; 2],
                "{prefix}"
            );
        }
        let keys = Keys::new("lock:", true).unwrap();
        let expected = ["lock:::reports{3117}", "lock:::processes{3117}"];
        assert_eq!(keys.reports(), expected);
    }

    #[test]
    fn a_lock_is_named_by_its_key_and_by_its_queue() {
        for cluster in [false, true] {
            for prefix in ["lock:", "", "{app}:", "é{🔒}", "x{a}{"] {
                let keys = Keys::new(prefix, cluster).unwrap();
                let named = |key: &str| keys.lock_of(key);
                for key in random_keys(1000).filter(|key| !key.starts_with(':')) {
                    let lock = format!("{prefix}{key}");
                    assert_eq!(named(&lock).as_ref(), Some(&lock));
                    assert_eq!(named(&keys.queue(&lock).to_string()), Some(lock.clone()));
                    let mut others = all_of(&keys, &lock).split_off(2);
                    others.extend(keys.reports());
                    others.extend([keys.never(), keys.channel("p")]);
                    for other in others {
                        assert_eq!(named(&other), None, "{other}");
                    }
                }
            }
        }
        let keys = Keys::new("lock:", true).unwrap();
        for foreign in [
            "lock",
            "lock:",
            "shop:a",
            "lock:::queue:a",
            "lock:::queue:{1}a",
            "",
        ] {
            assert_eq!(keys.lock_of(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_prefix_is_no_pattern() {
        let glob = |prefix| Keys::new(prefix, false).unwrap().glob();
        assert_eq!(glob("lock:"), "lock:*");
        assert_eq!(glob(r"a*b?[c]\"), r"a\*b\?\[c\]\\*");
    }

    /// The example in `PROTOCOL.md`, for other clients to compare.
    #[test]
    fn the_example_in_the_protocol_document() {
        let keys = Keys::new("lock:", true).unwrap();
        assert_eq!(slot_of("lock:order:42"), 1507);
        let queue = keys.queue("lock:order:42").to_string();
        assert_eq!(queue, "lock:::queue:{2245}order:42");
    }

    #[test]
    fn a_hash_tag_in_the_prefix_puts_all_locks_in_one_slot() {
        let keys = Keys::new("{shop}:lock:", true).unwrap();
        for key in ["a", "{b}", "}{", "::"] {
            let lock = format!("{{shop}}:lock:{key}");
            for name in all_of(&keys, &lock) {
                assert_eq!(slot_of(&name), slot_of("shop"), "{name}");
            }
        }
        for prefix in ["{", "{}", "a{b", "{}{a}", "}{"] {
            assert!(Keys::new(prefix, true).is_err(), "{prefix}");
            assert!(Keys::new(prefix, false).is_ok(), "{prefix}");
        }
        for prefix in ["", "}", "a}b", "{a}", "x{a}{", "{{}"] {
            assert!(Keys::new(prefix, true).is_ok(), "{prefix}");
        }
    }

    /// Computes the slot bit by bit, as the standard describes it, independently of the code under test.
    fn slot_by_the_book(key: &[u8]) -> u16 {
        let open = key.iter().position(|&byte| byte == b'{');
        let counts = open.and_then(|open| {
            let rest = &key[open + 1..];
            let close = rest.iter().position(|&byte| byte == b'}')?;
            (close > 0).then(|| &rest[..close])
        });
        let mut remainder = 0_u32;
        for byte in counts.unwrap_or(key).iter().chain(&[0, 0]) {
            for bit in (0..8).rev() {
                remainder = remainder << 1 | u32::from(byte >> bit & 1);
                if remainder > 0xffff {
                    remainder ^= 0x1_1021;
                }
            }
        }
        (remainder % 16384) as u16
    }

    /// Returns keys with every character that may matter.
    fn random_keys(count: usize) -> impl Iterator<Item = String> {
        let parts = [
            "{", "}", "{}", "}{", "{{", "}}", "order:", "42", "a", ":", "::", " ", "é", "漢字",
            "🔒", "\0", "\n", "{x}", "{🔒}",
        ];
        let mut seed = 1_usize;
        let mut random = move |sides: usize| {
            // Knuth's MMIX generator.
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % sides
        };
        (0..count).map(move |_| {
            let length = 1 + random(8);
            (0..length).map(|_| parts[random(parts.len())]).collect()
        })
    }

    #[test]
    fn all_keys_of_a_lock_are_in_its_slot() {
        for prefix in ["lock:", "", "}", "{app}:", "é{🔒}", "x{a}{"] {
            let keys = Keys::new(prefix, true).unwrap();
            for key in random_keys(100_000 / 6 + 1) {
                let lock = format!("{prefix}{key}");
                let expected = slot_by_the_book(lock.as_bytes());
                for name in all_of(&keys, &lock) {
                    assert_eq!(slot_by_the_book(name.as_bytes()), expected, "{name}");
                }
            }
        }
    }

    /// They cannot, since no key begins with a colon.
    #[test]
    fn prefixes_that_differ_by_a_colon_share_no_names() {
        let [short, long] = ["lock", "lock:"].map(|prefix| Keys::new(prefix, false).unwrap());
        let named = |keys: &Keys| -> HashSet<String> {
            let random = random_keys(10_000).filter(|key| !key.starts_with(':'));
            random
                .flat_map(|key| all_of(keys, &[&*keys.prefix, &*key].concat()))
                .collect()
        };
        let short = named(&short);
        for name in named(&long) {
            assert!(!short.contains(&name), "{name}");
        }
    }

    #[test]
    fn no_two_locks_share_a_queue() {
        let keys = Keys::new("lock:", true).unwrap();
        let mut seen = HashMap::new();
        for key in random_keys(100_000) {
            let lock = format!("lock:{key}");
            for name in [keys.queue(&lock), keys.waiters(&lock)] {
                if let Some(other) = seen.insert(name.to_string(), lock.clone()) {
                    assert_eq!(other, lock);
                }
            }
        }
    }
}
