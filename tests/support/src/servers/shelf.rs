//! A store in the memory of one process, as a user would bring one.

use std::collections::{BTreeMap, HashMap};
use std::future::ready;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex};

use lock_runtime::store::{Loaded, Store, StoreFuture, Swapped, Version};

use super::Servers;

/// What the URL of a shelf begins with.
pub const SCHEME: &str = "shelf://";

static SHELVES: LazyLock<Mutex<HashMap<String, Shelf>>> = LazyLock::new(Mutex::default);

/// Records by their names, each with the number of its last change.
#[derive(Clone, Default)]
pub struct Shelf(Arc<Mutex<Records>>);

#[derive(Default)]
struct Records {
    records: BTreeMap<String, (Vec<u8>, u64)>,
    changes: u64,
}

impl Shelf {
    /// Returns the shelf at that URL.
    pub fn at(url: &str) -> Self {
        let mut shelves = SHELVES.lock().unwrap();
        shelves.entry(url.to_owned()).or_default().clone()
    }

    /// Writes whatever is there, as another program would.
    pub fn overwrite(&self, name: &str, record: &[u8]) {
        let mut all = self.0.lock().unwrap();
        all.changes += 1;
        let change = all.changes;
        all.records
            .insert(name.to_owned(), (record.to_vec(), change));
    }
}

impl Records {
    fn load(&self, name: &str) -> Loaded {
        match self.records.get(name) {
            Some((record, change)) => Loaded::found(record.clone(), version(*change)),
            None => Loaded::nothing(),
        }
    }
}

fn version(change: u64) -> Version {
    Version::new(change.to_be_bytes().as_slice())
}

impl Store for Shelf {
    fn load<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Loaded> {
        Box::pin(ready(Ok(self.0.lock().unwrap().load(name))))
    }

    fn swap<'a>(
        &'a self,
        name: &'a str,
        expected: Option<&'a Version>,
        record: Option<&'a [u8]>,
    ) -> StoreFuture<'a, Swapped> {
        let mut all = self.0.lock().unwrap();
        let present = all.records.get(name).map(|(_, change)| version(*change));
        if present.as_ref() != expected {
            return Box::pin(ready(Ok(Swapped::Conflict(all.load(name)))));
        }
        all.changes += 1;
        let change = all.changes;
        match record {
            Some(record) => all
                .records
                .insert(name.to_owned(), (record.to_vec(), change)),
            None => all.records.remove(name),
        };
        Box::pin(ready(Ok(Swapped::Done(version(change)))))
    }

    fn names<'a>(&'a self, prefix: &'a str, most: usize) -> StoreFuture<'a, Vec<String>> {
        let all = self.0.lock().unwrap();
        let names = all.records.keys().filter(|name| name.starts_with(prefix));
        let names = names.take(most).cloned().collect();
        Box::pin(ready(Ok(names)))
    }

    fn loads_the_present(&self) -> bool {
        true
    }
}

/// A shelf that no other test uses.
pub struct Shelves {
    url: String,
}

impl Shelves {
    pub fn start() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let url = format!("{SCHEME}tests-{}", COUNT.fetch_add(1, Relaxed));
        Self { url }
    }
}

impl Servers for Shelves {
    fn urls_at(&self, _: &[u16]) -> Vec<String> {
        Vec::new()
    }

    fn urls(&self) -> Vec<String> {
        vec![self.url.clone()]
    }
}
