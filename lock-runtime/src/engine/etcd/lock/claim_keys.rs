//! The keys that a process uses for its claims on one lock. They are used again, since the server keeps an
//! entry for each deleted key until its history is compacted.

use crate::engine::etcd::keys::Keys;
use crate::util::sync::Mutex;
use prost::bytes::Bytes;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct ClaimKeys {
    taken: Mutex<HashMap<Arc<str>, BTreeSet<u32>>>,
}

/// A key that no other claim of the process uses, until this is dropped.
pub(crate) struct ClaimKey {
    pub(crate) bytes: Bytes,
    pub(crate) number: u32,
    name: Arc<str>,
    all: Arc<ClaimKeys>,
}

impl ClaimKeys {
    /// Takes the least free number from `first` on.
    pub(crate) fn take(
        self: &Arc<Self>,
        keys: &Keys,
        name: &Arc<str>,
        first: u32,
    ) -> Arc<ClaimKey> {
        let mut taken = self.taken.lock();
        let taken = taken.entry(name.clone()).or_default();
        let mut number = first;
        while !taken.insert(number) {
            number += 1;
        }
        Arc::new(ClaimKey {
            bytes: keys.claim(name, number),
            number,
            name: name.clone(),
            all: self.clone(),
        })
    }
}

impl Drop for ClaimKey {
    fn drop(&mut self) {
        let mut taken = self.all.taken.lock();
        if let Some(numbers) = taken.get_mut(&self.name) {
            numbers.remove(&self.number);
            if numbers.is_empty() {
                taken.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_free_slot_is_taken() {
        let (claim_keys, keys) = (Arc::<ClaimKeys>::default(), Keys::new("lock:"));
        let name: Arc<str> = "lock:a".into();
        let take = |first| claim_keys.take(&keys, &name, first);
        let (zero, one) = (take(0), take(0));
        assert_eq!((zero.number, one.number), (0, 1));
        drop(zero);
        assert_eq!(take(1).number, 2);
        assert_eq!(take(0).number, 0);
        drop(one);
        assert!(claim_keys.taken.lock().is_empty());
    }
}
