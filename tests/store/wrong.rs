//! Stores that break a promise, each of which `testing::check_store` finds.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use lock_runtime::store::{Loaded, Store, StoreError, StoreFuture, Swapped, Version};
use lock_runtime::testing::check_store;

use lock_test_support::servers::Shelf;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Defect {
    CutsRecords,
    IgnoresCase,
    CutsNames,
    InsertsAnyway,
    ReplacesAnyway,
    ReplacesNothing,
    DeletesAnyway,
    RepeatsVersions,
    HidesConflicts,
    RepliesOtherVersions,
    ComparesBefore,
    ListsAll,
    ListsWhatIsGone,
    ClockGoesBack,
    Fails,
}

struct Wrong {
    defect: Defect,
    rows: Mutex<Rows>,
}

#[derive(Default)]
struct Rows {
    rows: BTreeMap<String, (Vec<u8>, u64)>,
    gone: Vec<String>,
    changes: u64,
}

fn version(number: u64) -> Version {
    Version::new(number.to_be_bytes().as_slice())
}

impl Wrong {
    fn row(&self, name: &str) -> String {
        match self.defect {
            Defect::IgnoresCase => name.to_lowercase(),
            Defect::CutsNames => name.chars().take(500).collect(),
            _ => name.to_owned(),
        }
    }

    fn loaded(&self, rows: &Rows, name: &str) -> Loaded {
        let loaded = match rows.rows.get(name) {
            Some((record, number)) => Loaded::found(record.clone(), version(*number)),
            None => Loaded::nothing(),
        };
        match self.defect {
            Defect::ClockGoesBack => {
                loaded.at(Duration::from_secs(1 << 40) / (rows.changes as u32))
            }
            _ => loaded,
        }
    }
}

impl Store for Wrong {
    fn load<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Loaded> {
        Box::pin(async {
            let mut rows = self.rows.lock().unwrap();
            rows.changes += 1;
            match self.defect {
                Defect::Fails => Err(StoreError::not_done("it is down")),
                _ => Ok(self.loaded(&rows, &self.row(name))),
            }
        })
    }

    fn swap<'a>(
        &'a self,
        name: &'a str,
        expected: Option<&'a Version>,
        record: Option<&'a [u8]>,
    ) -> StoreFuture<'a, Swapped> {
        Box::pin(async move {
            let (name, defect) = (self.row(name), self.defect);
            let present = {
                let rows = self.rows.lock().unwrap();
                rows.rows.get(&name).map(|(_, number)| *number)
            };
            if defect == Defect::ComparesBefore {
                tokio::task::yield_now().await;
            }
            let mut rows = self.rows.lock().unwrap();
            let anyway = match (present, expected, record) {
                (Some(_), None, Some(_)) => defect == Defect::InsertsAnyway,
                (Some(_), Some(_), Some(_)) => defect == Defect::ReplacesAnyway,
                (Some(_), Some(_), None) => defect == Defect::DeletesAnyway,
                (None, Some(_), Some(_)) => defect == Defect::ReplacesNothing,
                _ => false,
            };
            if present.map(version).as_ref() != expected && !anyway {
                return Ok(Swapped::Conflict(match defect {
                    Defect::HidesConflicts => Loaded::nothing(),
                    _ => self.loaded(&rows, &name),
                }));
            }
            rows.changes += 1;
            let number = match defect {
                Defect::RepeatsVersions => present.unwrap_or_default() + 1,
                _ => rows.changes,
            };
            match record {
                Some(record) => {
                    let length = match defect {
                        Defect::CutsRecords => record.len().min(1000),
                        _ => record.len(),
                    };
                    rows.rows.insert(name, (record[..length].to_vec(), number));
                }
                None => {
                    rows.rows.remove(&name);
                    rows.gone.push(name);
                }
            }
            let shown = number + u64::from(defect == Defect::RepliesOtherVersions);
            Ok(Swapped::Done(version(shown)))
        })
    }

    fn names<'a>(&'a self, prefix: &'a str, most: usize) -> StoreFuture<'a, Vec<String>> {
        let rows = self.rows.lock().unwrap();
        let names = rows.rows.keys().filter(|name| name.starts_with(prefix));
        let names: Vec<_> = match self.defect {
            Defect::ListsAll => names.cloned().collect(),
            Defect::ListsWhatIsGone => rows.gone.iter().take(most).cloned().collect(),
            _ => names.take(most).cloned().collect(),
        };
        Box::pin(std::future::ready(Ok(names)))
    }
}

#[tokio::test]
async fn broken_promise_of_a_store_is_named() {
    for (defect, named) in [
        (Defect::CutsRecords, "the bytes that were written"),
        (Defect::IgnoresCase, "different records"),
        (Defect::CutsNames, "different records"),
        (Defect::InsertsAnyway, "an insertion changes no record"),
        (Defect::ReplacesAnyway, "is not replaced"),
        (Defect::ReplacesNothing, "none is replaced"),
        (Defect::DeletesAnyway, "is not deleted"),
        (Defect::RepeatsVersions, "never comes again"),
        (Defect::HidesConflicts, "written"),
        (Defect::RepliesOtherVersions, "found next"),
        (Defect::ComparesBefore, "one is done"),
        (Defect::ListsAll, "as many names"),
        (Defect::ListsWhatIsGone, "gone are not listed"),
        (Defect::ClockGoesBack, "does not go back"),
        (Defect::Fails, "do not fail"),
    ] {
        let rows = Mutex::default();
        let broken = check_store(&Wrong { defect, rows }).await.unwrap_err();
        assert!(broken.promise().contains(named), "{defect:?}: {broken}");
    }
}

#[tokio::test]
async fn store_that_keeps_its_promises_passes() {
    check_store(&Shelf::default()).await.unwrap();
}
