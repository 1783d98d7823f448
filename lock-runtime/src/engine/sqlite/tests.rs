//! Tests of the store, as a user would test one.

use crate::engine::sqlite::file::File;
use crate::engine::sqlite::worker::SqliteStore;
use crate::own_store::{Loaded, Store, Swapped};
use crate::testing::check_store;
use crate::util::join_all::join_all;
use lock_test_support::server::temporary;
use std::time::Duration;

/// Starts a store in a new folder, which is deleted with the second value.
fn store() -> (SqliteStore, impl Drop) {
    let folder = temporary("lock-sqlite-");
    let file = File {
        path: folder.path().join("locks.db"),
        create: true,
        patience: Duration::from_secs(20),
    };
    (SqliteStore::start(file).unwrap(), folder)
}

#[tokio::test]
async fn promises_of_a_store_are_kept() {
    let (store, _folder) = store();
    check_store(&store).await.unwrap();
}

/// Those that come while the thread is busy are written at once.
#[tokio::test]
async fn conflicts_in_one_transaction_are_those_of_one_after_the_other() {
    let (store, _folder) = store();
    let records: Vec<_> = (0..300_u16)
        .map(|n| [n.to_be_bytes(); 8].concat())
        .collect();
    let inserts = records
        .iter()
        .map(|record| store.swap("row", None, Some(record)));
    let inserted = join_all(inserts).await;
    let done = inserted
        .iter()
        .filter(|it| matches!(it, Ok(Swapped::Done(_))));
    assert_eq!(done.count(), 1);
    let shown = inserted.iter().filter_map(|it| match it {
        Ok(Swapped::Conflict(Loaded { found, .. })) => found.as_ref(),
        _ => None,
    });
    let shown: Vec<_> = shown.collect();
    assert_eq!(shown.len(), records.len() - 1);
    assert!(shown.iter().all(|it| *it == shown[0]));
}

/// In microseconds since 1970, as fencing tokens are at least.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn clock_of_a_file_goes_on_and_shows_the_time_of_day() {
    let (store, _folder) = store();
    let before = store.load("row").await.unwrap().at.unwrap();
    let after = store.load("row").await.unwrap().at.unwrap();
    assert!(before <= after);
    let year = Duration::from_secs(366 * 86_400);
    assert!(after > 50 * year, "{after:?}");
}
