//! A store whose records other clients lock for a while: a swap is not done, although the record is the one
//! that was expected.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use lock_runtime::store::{Loaded, Store, StoreFuture, Swapped, Version};
use lock_runtime::{Config, LockManager, Report, Revocation};

use lock_test_support::servers::Shelf;
use lock_test_support::time::soon;

#[derive(Clone, Default)]
struct Locked {
    shelf: Shelf,
    /// How many swaps find it so.
    swaps: Arc<AtomicUsize>,
}

impl Store for Locked {
    fn load<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Loaded> {
        self.shelf.load(name)
    }

    fn swap<'a>(
        &'a self,
        name: &'a str,
        expected: Option<&'a Version>,
        record: Option<&'a [u8]>,
    ) -> StoreFuture<'a, Swapped> {
        let left = self
            .swaps
            .fetch_update(Relaxed, Relaxed, |it| it.checked_sub(1));
        match left {
            Ok(_) => Box::pin(async { self.shelf.load(name).await.map(Swapped::Conflict) }),
            Err(_) => self.shelf.swap(name, expected, record),
        }
    }

    fn loads_the_present(&self) -> bool {
        true
    }
}

async fn connected() -> (Locked, LockManager) {
    let store = Locked::default();
    let config = Config::store(store.clone()).report(Report::Off);
    (store, LockManager::connect(config).await.unwrap())
}

#[tokio::test]
async fn record_that_is_locked_for_a_moment_delays_calls_alone() {
    let (store, locks) = connected().await;
    for _ in 0..3 {
        store.swaps.store(5, Relaxed);
        let guard = soon(locks.lock("row").acquire()).await.unwrap();
        store.swaps.store(5, Relaxed);
        guard.fencing_token().await.unwrap();
        store.swaps.store(5, Relaxed);
        guard.release().await.unwrap();
        assert_eq!(store.swaps.load(Relaxed), 0);
    }
    locks.shutdown().await;
}

#[tokio::test]
async fn ping_of_a_record_that_stays_locked_fails() {
    let (store, locks) = connected().await;
    for swaps in [1, usize::MAX] {
        store.swaps.store(swaps, Relaxed);
        let error = soon(locks.ping()).await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
    }
    store.swaps.store(0, Relaxed);
    locks.ping().await.unwrap();
    locks.shutdown().await;
}

#[tokio::test]
async fn record_of_another_program_that_stays_locked_is_not_taken() {
    let (store, locks) = connected().await;
    store.shelf.overwrite("lock:row", b"nonsense");
    store.swaps.store(usize::MAX, Relaxed);
    let force = async || locks.revoke("row").all().force().await;
    let error = soon(force()).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    store.swaps.store(0, Relaxed);
    let taken = force().await.unwrap();
    assert!(matches!(taken, Revocation::Taken { .. }), "{taken:?}");
    locks.shutdown().await;
}
