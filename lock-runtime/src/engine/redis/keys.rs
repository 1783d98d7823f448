//! The names of all keys and channels.

use super::hash_slot::{slot, tag};

/// How keys and channels are called. No lock is called like one of the others, since no lock's key
/// begins with `::`.
#[derive(Clone)]
pub(crate) struct Names {
    prefix: String,
    cluster: bool,
}

impl Names {
    /// Names that begin with that. In a cluster, all keys of a lock are in the lock's own slot; an
    /// error says why that can't be had.
    pub(crate) fn new(prefix: &str, cluster: bool) -> Result<Names, &'static str> {
        let braces = prefix.split_once('{').map(|(_, rest)| rest.find('}'));
        match braces {
            Some(None | Some(0)) if cluster => Err(
                "the prefix has a `{` and nothing in braces, so that the keys of a lock would not be \
                 in one slot of the cluster; leave the brace out, or write something in braces: \
                 `{locks}:`",
            ),
            _ => Ok(Names {
                prefix: prefix.to_owned(),
                cluster,
            }),
        }
    }

    /// Those who wait for a lock, by order of arrival.
    pub(crate) fn queue(&self, lock: &str) -> String {
        self.beside(lock, "queue:", self.key(lock))
    }

    /// What is known of those who wait.
    pub(crate) fn waiters(&self, lock: &str) -> String {
        self.beside(lock, "waiters:", self.key(lock))
    }

    /// What is left of a token that was cancelled.
    pub(crate) fn tombstone(&self, lock: &str, token: &str) -> String {
        self.beside(lock, "gone:", token)
    }

    /// The counter of fencing tokens.
    pub(crate) fn fence(&self, lock: &str) -> String {
        self.beside(lock, "fence", "")
    }

    /// Beside the lock, in a cluster: a key that never exists.
    pub(crate) fn nothing(&self, lock: &str) -> Option<String> {
        self.cluster.then(|| self.tombstone(lock, ""))
    }

    /// Whether a lock of ours can be called so.
    pub(crate) fn has(&self, lock: &str) -> bool {
        lock.strip_prefix(&*self.prefix)
            .is_some_and(|key| !key.is_empty())
    }

    /// A key that never exists, whatever the lock.
    pub(crate) fn never(&self) -> String {
        [&self.prefix, "::never"].concat()
    }

    /// The pattern of all keys and channels.
    pub(crate) fn all(&self) -> String {
        [&self.prefix, "*"].concat()
    }

    /// The channel on which a process hears of what it is granted.
    pub(crate) fn grants(&self, process: &str) -> String {
        [&self.prefix, "::grants:", process].concat()
    }

    fn key<'a>(&self, lock: &'a str) -> &'a str {
        lock.strip_prefix(&*self.prefix).unwrap_or(lock)
    }

    fn beside(&self, lock: &str, kind: &str, rest: &str) -> String {
        let prefix = &self.prefix;
        match self.cluster {
            true => format!("{prefix}::{kind}{{{}}}{rest}", tag(slot(lock))),
            false => [prefix, "::", kind, rest].concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn all_of(names: &Names, lock: &str) -> Vec<String> {
        let mut all = vec![
            lock.to_owned(),
            names.queue(lock),
            names.waiters(lock),
            names.tombstone(lock, TOKEN),
            names.fence(lock),
        ];
        all.extend(names.nothing(lock));
        all
    }

    #[test]
    fn names_on_one_server() {
        let names = Names::new("lock:", false).unwrap();
        let expected = [
            "lock:a{b}c",
            "lock:::queue:a{b}c",
            "lock:::waiters:a{b}c",
            &format!("lock:::gone:{TOKEN}"),
            "lock:::fence",
        ];
        assert_eq!(all_of(&names, "lock:a{b}c"), expected);
        assert_eq!(names.grants("p"), "lock:::grants:p");
    }

    #[test]
    fn names_in_a_cluster() {
        let names = Names::new("lock:", true).unwrap();
        let tag = tag(slot("lock:a{b}c"));
        let expected = [
            "lock:a{b}c".to_owned(),
            format!("lock:::queue:{{{tag}}}a{{b}}c"),
            format!("lock:::waiters:{{{tag}}}a{{b}}c"),
            format!("lock:::gone:{{{tag}}}{TOKEN}"),
            format!("lock:::fence{{{tag}}}"),
            format!("lock:::gone:{{{tag}}}"),
        ];
        assert_eq!(all_of(&names, "lock:a{b}c"), expected);
        assert_eq!(names.grants("p"), "lock:::grants:p");
    }

    /// As `PROTOCOL.md` says, for others to compare.
    #[test]
    fn the_example_of_the_protocol() {
        let names = Names::new("lock:", true).unwrap();
        assert_eq!(slot("lock:order:42"), 1507);
        assert_eq!(names.queue("lock:order:42"), "lock:::queue:{2245}order:42");
    }

    #[test]
    fn a_prefix_may_name_the_slot_of_all_locks() {
        let names = Names::new("{shop}:lock:", true).unwrap();
        for key in ["a", "{b}", "}{", "::"] {
            let lock = format!("{{shop}}:lock:{key}");
            for name in all_of(&names, &lock) {
                assert_eq!(slot(&name), slot("shop"), "{name}");
            }
        }
        for prefix in ["{", "{}", "a{b", "{}{a}", "}{"] {
            assert!(Names::new(prefix, true).is_err(), "{prefix}");
            assert!(Names::new(prefix, false).is_ok(), "{prefix}");
        }
        for prefix in ["", "}", "a}b", "{a}", "x{a}{", "{{}"] {
            assert!(Names::new(prefix, true).is_ok(), "{prefix}");
        }
    }

    /// Bit by bit, as the standard describes it, and not as it is computed elsewhere.
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

    /// Keys with all that may matter in them.
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
            let names = Names::new(prefix, true).unwrap();
            for key in random_keys(100_000 / 6 + 1) {
                let lock = format!("{prefix}{key}");
                let expected = slot_by_the_book(lock.as_bytes());
                for name in all_of(&names, &lock) {
                    assert_eq!(slot_by_the_book(name.as_bytes()), expected, "{name}");
                }
            }
        }
    }

    /// Since no key begins with a colon.
    #[test]
    fn a_colon_more_makes_another_prefix() {
        let [short, long] = ["lock", "lock:"].map(|prefix| Names::new(prefix, false).unwrap());
        let named = |names: &Names| -> HashSet<String> {
            let keys = random_keys(10_000).filter(|key| !key.starts_with(':'));
            keys.flat_map(|key| all_of(names, &[&*names.prefix, &*key].concat()))
                .collect()
        };
        let short = named(&short);
        for name in named(&long) {
            assert!(!short.contains(&name), "{name}");
        }
    }

    #[test]
    fn no_two_locks_share_a_queue() {
        let names = Names::new("lock:", true).unwrap();
        let mut seen = HashMap::new();
        for key in random_keys(100_000) {
            let lock = format!("lock:{key}");
            for name in [names.queue(&lock), names.waiters(&lock)] {
                if let Some(other) = seen.insert(name, lock.clone()) {
                    assert_eq!(other, lock);
                }
            }
        }
    }
}
