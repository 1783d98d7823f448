//! Bells that ring or panic when the library asks them.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use lock_runtime::store::{Bell, Bells, Loaded, Store, StoreFuture, Swapped, Version};
use lock_runtime::{Config, LockManager, ReleaseMode};

use lock_test_support::servers::Shelf;
use lock_test_support::time::soon;

/// A shelf with bells that no other process rings.
#[derive(Clone, Default)]
struct Ringing {
    shelf: Shelf,
    bell: Arc<Mutex<Option<Bell>>>,
    panics: Arc<AtomicBool>,
}

impl Bells for Ringing {
    fn listen(&self, _: &str, bell: Bell) {
        *self.bell.lock().unwrap() = Some(bell);
    }

    fn hears(&self) -> bool {
        let bell = self.bell.lock().unwrap().clone();
        if let Some(bell) = bell {
            bell();
        }
        assert!(!self.panics.load(Relaxed), "the bells are broken");
        true
    }

    fn ring(&self, _: &str) {}
}

impl Store for Ringing {
    fn load<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Loaded> {
        self.shelf.load(name)
    }

    fn swap<'a>(
        &'a self,
        name: &'a str,
        expected: Option<&'a Version>,
        record: Option<&'a [u8]>,
    ) -> StoreFuture<'a, Swapped> {
        self.shelf.swap(name, expected, record)
    }

    fn bells(&self) -> Option<&dyn Bells> {
        Some(self)
    }
}

/// Returns a process on that shelf, and its store.
async fn process_at(shelf: &Shelf) -> (LockManager, Ringing) {
    let store = Ringing {
        shelf: shelf.clone(),
        ..Ringing::default()
    };
    let locks = LockManager::connect(Config::store(store.clone()));
    (locks.await.unwrap(), store)
}

#[tokio::test]
async fn bells_may_ring_while_they_are_asked() {
    let shelf = Shelf::default();
    let ((locks, _), (other, _)) = (process_at(&shelf).await, process_at(&shelf).await);
    let guard = locks.lock("row").acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("row").run(async |_| ()));
    soon(guard.wanted()).await;
    guard.release().await.unwrap();
    soon(waiter).await.unwrap().unwrap();
}

#[tokio::test]
async fn lock_is_released_although_the_bells_panic() {
    let shelf = Shelf::default();
    let ((locks, store), (other, _)) = (process_at(&shelf).await, process_at(&shelf).await);
    let lock = locks.lock("row").release_mode(ReleaseMode::Lazy);
    let guard = lock.acquire().await.unwrap();
    store.panics.store(true, Relaxed);
    drop(guard);
    soon(other.lock("row").run(async |_| ())).await.unwrap();
}
