//! What this process knows of each lock from the last reply.

use crate::engine::store::observer::Observer;
use crate::engine::store::record::Record;
use crate::own_store::Version;
use crate::util::clock::Timestamp;
use crate::util::sync::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How many locks are known before the oldest are forgotten, and how long they are known at least: an
/// observer must see a dead holder for its whole ttl.
const MANY: usize = 1024;
const KNOWN_FOR: Duration = Duration::from_secs(600);

#[derive(Clone, Default)]
pub(crate) struct Known {
    pub(crate) version: Option<Version>,
    pub(crate) record: Record,
    pub(crate) observer: Observer,
    /// The server's time in the last reply that had one.
    pub(crate) time: Option<u64>,
    /// When the request was sent whose reply this is; `None` if it is only assumed that there is no record.
    pub(crate) sent: Option<Timestamp>,
    /// How long holds of the lock have taken lately.
    pub(crate) pace: Option<Duration>,
}

#[derive(Default)]
pub(crate) struct KnownLocks {
    locks: Mutex<HashMap<Arc<str>, Known>>,
    /// The versions on which swaps had no reply yet: they may be carried out while that is the present one.
    unanswered: Mutex<HashMap<Arc<str>, Vec<Option<Version>>>>,
}

impl KnownLocks {
    pub(crate) fn get(&self, name: &str) -> Known {
        self.locks.lock().get(name).cloned().unwrap_or_default()
    }

    /// Returns `true` if what is known of the lock is so.
    pub(crate) fn is_so(&self, name: &str, test: impl FnOnce(&Record) -> bool) -> bool {
        let locks = self.locks.lock();
        locks.get(name).is_some_and(|known| test(&known.record))
    }

    /// Takes what is newer than what is known.
    pub(crate) fn put(&self, name: &Arc<str>, known: Known, now: Timestamp) {
        let mut locks = self.locks.lock();
        let age = |known: &Known| known.sent.map_or(Duration::MAX, |at| now.elapsed_since(at));
        let present = locks.get(name);
        if present.is_some_and(|present| age(present) < age(&known)) {
            return;
        }
        if known.version.is_none() {
            locks.remove(name);
            return;
        }
        if locks.len() >= MANY && locks.len().is_power_of_two() {
            locks.retain(|_, known| age(known) < KNOWN_FOR);
        }
        locks.insert(name.clone(), known);
    }

    /// Records a swap that is about to be sent.
    pub(crate) fn begin_swap(&self, name: &Arc<str>, expected: &Option<Version>) {
        let mut unanswered = self.unanswered.lock();
        unanswered
            .entry(name.clone())
            .or_default()
            .push(expected.clone());
    }

    /// Records that its reply came.
    pub(crate) fn end_swap(&self, name: &str, expected: &Option<Version>) {
        self.forget_swaps(name, |of_name| {
            if let Some(place) = of_name.iter().position(|it| it == expected) {
                of_name.swap_remove(place);
            }
        });
    }

    /// Returns `true` if a swap on that version may still be carried out.
    pub(crate) fn may_come(&self, name: &str, version: &Option<Version>) -> bool {
        let unanswered = self.unanswered.lock();
        unanswered
            .get(name)
            .is_some_and(|of_name| of_name.contains(version))
    }

    /// Records that a swap was carried out, which led to that version: those on earlier ones are not any
    /// more, but insertions are unless the record stays.
    pub(crate) fn settle(&self, name: &str, version: &Option<Version>, stays: bool) {
        self.forget_swaps(name, |of_name| {
            of_name.retain(|it| it == version || it.is_none() && !stays);
        });
    }

    fn forget_swaps(&self, name: &str, forget: impl FnOnce(&mut Vec<Option<Version>>)) {
        let mut unanswered = self.unanswered.lock();
        if let Some(of_name) = unanswered.get_mut(name) {
            forget(of_name);
            if of_name.is_empty() {
                unanswered.remove(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_that_was_carried_out_voids_those_on_earlier_versions_alone() {
        let (known, name) = (KnownLocks::default(), Arc::from("row"));
        let version = |byte: u8| Some(Version::new([byte]));
        let begun = [None, version(1), version(2)];
        begun.iter().for_each(|it| known.begin_swap(&name, it));
        known.settle(&name, &version(2), false);
        let may_come = begun.map(|it| known.may_come(&name, &it));
        assert_eq!(may_come, [true, false, true]);
        known.settle(&name, &version(3), true);
        assert!(!known.may_come(&name, &None), "the record stays");
    }
}
