//! Locks on a store that loses requests and replies, and carries writes out late.

mod bells;
mod foreign;
mod locked;
mod wrong;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use lock_runtime::store::{Loaded, Store, StoreError, StoreFuture, Swapped, Version};
use lock_runtime::{Config, LockManager, Report};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use lock_test_support::exclusion::{Exclusion, UNLIMITED};
use lock_test_support::rng::Rng;
use lock_test_support::servers::Shelf;
use lock_test_support::time::{PATIENCE, begin, millis};

/// A store behind a bad network.
#[derive(Clone)]
struct Faulty {
    shelf: Shelf,
    rng: Arc<Mutex<Rng>>,
    /// The number of faults so far.
    faults: Arc<AtomicU64>,
    runtime: Handle,
    /// The writes that come late.
    late: Arc<Mutex<JoinSet<()>>>,
}

impl Faulty {
    fn new() -> Self {
        Self {
            shelf: Shelf::default(),
            rng: Arc::new(Mutex::new(Rng::random())),
            faults: Arc::default(),
            runtime: Handle::current(),
            late: Arc::default(),
        }
    }

    fn one_in(&self, sides: u64) -> bool {
        let is_fault = self.rng.lock().unwrap().one_in(sides);
        self.faults.fetch_add(is_fault.into(), Relaxed);
        is_fault
    }
}

impl Store for Faulty {
    fn load<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Loaded> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            if self.one_in(50) {
                return Err(StoreError::unknown("the reply is lost"));
            }
            self.shelf.load(name).await
        })
    }

    fn swap<'a>(
        &'a self,
        name: &'a str,
        expected: Option<&'a Version>,
        record: Option<&'a [u8]>,
    ) -> StoreFuture<'a, Swapped> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            if self.one_in(50) {
                return Err(StoreError::not_done("the request is lost"));
            }
            if self.one_in(50) {
                let (shelf, name) = (self.shelf.clone(), name.to_owned());
                let (expected, record) = (expected.cloned(), record.map(<[u8]>::to_vec));
                let late = millis(self.rng.lock().unwrap().below(1500));
                self.late.lock().unwrap().spawn_on(
                    async move {
                        tokio::time::sleep(late).await;
                        let swap = shelf.swap(&name, expected.as_ref(), record.as_deref());
                        let _ = swap.await;
                    },
                    &self.runtime,
                );
                return Err(StoreError::unknown("the request is late"));
            }
            let swapped = self.shelf.swap(name, expected, record).await?;
            match self.one_in(50) {
                true => Err(StoreError::unknown("the reply is lost")),
                false => Ok(swapped),
            }
        })
    }

    fn loads_the_present(&self) -> bool {
        true
    }
}

/// Returns how many holders a call allows beside it, itself included.
fn limit_of(kind: u64) -> usize {
    match kind {
        0 => 1,
        1 => 3,
        _ => UNLIMITED,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_exclude_each_other_on_a_store_that_loses_and_delays() {
    const PROCESSES: u64 = 8;
    const HOLDS: u64 = 40;
    let (store, exclusion) = (Faulty::new(), Arc::<Exclusion>::default());
    let (last_token, held) = (Arc::new(Mutex::new(0)), Arc::new(AtomicU64::new(0)));
    let mut processes = JoinSet::new();
    for process in 0..PROCESSES {
        let (store, exclusion) = (store.clone(), exclusion.clone());
        let (last_token, held) = (last_token.clone(), held.clone());
        processes.spawn(async move {
            let mut rng = Rng::random();
            let locks = loop {
                let config = Config::store(store.clone()).wait(PATIENCE);
                match LockManager::connect(config.ttl(millis(1000))).await {
                    Ok(locks) => break locks,
                    Err(error) => assert!(error.is_unavailable(), "{error}"),
                }
            };
            while held.load(Relaxed) < PROCESSES * HOLDS {
                let kind = rng.below(3);
                let lock = locks.lock("door");
                let lock = match kind {
                    0 => lock,
                    1 => lock.permits(3),
                    _ => lock.read(),
                };
                let Ok(guard) = lock.acquire().await else {
                    continue;
                };
                let until = std::time::Instant::now() + guard.remaining();
                let holding = exclusion.enter(process, limit_of(kind), until);
                held.fetch_add(1, Relaxed);
                if kind == 0
                    && let Ok(token) = guard.fencing_token().await
                {
                    // Unless its lease has ended meanwhile, none is drawn after it.
                    let mut last = last_token.lock().unwrap();
                    let in_time = !guard.remaining().is_zero();
                    assert!(!in_time || token > *last, "{token} after {last}");
                    *last = token.max(*last);
                }
                tokio::time::sleep(Duration::from_micros(rng.below(5000))).await;
                drop(holding);
                let _ = guard.release().await;
            }
            locks.shutdown().await;
        });
    }
    while let Some(ended) = processes.join_next().await {
        ended.unwrap();
    }
    let faults = store.faults.load(Relaxed);
    assert!(faults > 20, "only {faults} faults occurred");
    // What came late has left no ghost.
    let late = std::mem::take(&mut *store.late.lock().unwrap());
    late.join_all().await;
    let locks = LockManager::connect(Config::store(store.shelf))
        .await
        .unwrap();
    let found = locks.inspect("door").await.unwrap();
    assert!(
        found.holders().is_empty() && found.waiting() == 0,
        "{found:?}"
    );
    locks.shutdown().await;
}

/// A store whose next swap on a version does not come before the test lets it.
#[derive(Clone, Default)]
struct Late {
    shelf: Shelf,
    delays: Arc<AtomicBool>,
    delayed: Arc<Mutex<Option<Delayed>>>,
}

struct Delayed {
    name: String,
    expected: Option<Version>,
    record: Option<Vec<u8>>,
}

impl Late {
    /// Carries out what was delayed.
    async fn come(&self) -> Swapped {
        let Delayed {
            name,
            expected,
            record,
        } = self.delayed.lock().unwrap().take().unwrap();
        let swap = self.shelf.swap(&name, expected.as_ref(), record.as_deref());
        swap.await.unwrap()
    }
}

impl Store for Late {
    fn load<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Loaded> {
        self.shelf.load(name)
    }

    fn swap<'a>(
        &'a self,
        name: &'a str,
        expected: Option<&'a Version>,
        record: Option<&'a [u8]>,
    ) -> StoreFuture<'a, Swapped> {
        if expected.is_none() || !self.delays.swap(false, Relaxed) {
            return self.shelf.swap(name, expected, record);
        }
        *self.delayed.lock().unwrap() = Some(Delayed {
            name: name.to_owned(),
            expected: expected.cloned(),
            record: record.map(<[u8]>::to_vec),
        });
        Box::pin(std::future::pending())
    }

    fn loads_the_present(&self) -> bool {
        true
    }
}

/// The release of a call that was dropped finds nothing to release yet.
#[tokio::test]
async fn acquisition_that_comes_after_its_release_does_not_count() {
    let store = Late::default();
    let config = Config::store(store.clone()).report(Report::Off);
    let locks = LockManager::connect(config).await.unwrap();
    let guard = locks.lock("row").acquire().await.unwrap();
    guard.fencing_token().await.unwrap();
    guard.release().await.unwrap();
    store.delays.store(true, Relaxed);
    let mut call = Box::pin(locks.lock("row").acquire());
    assert!(begin(&mut call).is_pending());
    drop(call);
    // It waits for releases.
    locks.shutdown().await;
    let came = store.come().await;
    assert!(matches!(came, Swapped::Conflict(_)), "{came:?}");
}

/// A server whose clock is an hour ahead.
#[derive(Clone)]
struct Ahead(Shelf);

fn ahead(loaded: Loaded) -> Loaded {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    loaded.at(now.unwrap() + Duration::from_secs(3600))
}

impl Store for Ahead {
    fn load<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Loaded> {
        Box::pin(async { self.0.load(name).await.map(ahead) })
    }

    fn swap<'a>(
        &'a self,
        name: &'a str,
        expected: Option<&'a Version>,
        record: Option<&'a [u8]>,
    ) -> StoreFuture<'a, Swapped> {
        Box::pin(async move {
            Ok(match self.0.swap(name, expected, record).await? {
                Swapped::Conflict(found) => Swapped::Conflict(ahead(found)),
                done => done,
            })
        })
    }

    fn names<'a>(&'a self, prefix: &'a str, most: usize) -> StoreFuture<'a, Vec<String>> {
        self.0.names(prefix, most)
    }
}

#[tokio::test]
async fn record_that_remembers_nothing_any_more_is_deleted_by_a_list() {
    let shelf = Shelf::default();
    let locks = LockManager::connect(Config::store(shelf.clone()));
    let locks = locks.await.unwrap();
    let guard = locks.lock("row").acquire().await.unwrap();
    guard.fencing_token().await.unwrap();
    guard.release().await.unwrap();
    let is_there = async || shelf.names("lock:row", 1).await.unwrap().len() == 1;
    locks.list("").await.unwrap();
    assert!(is_there().await, "it remembers the number");
    let later = LockManager::connect(Config::store(Ahead(shelf.clone())));
    let later = later.await.unwrap();
    later.list("").await.unwrap();
    assert!(!is_there().await);
    later.shutdown().await;
    locks.shutdown().await;
}

/// Each lock counts alone, and the counter of one is far ahead.
#[tokio::test]
async fn token_of_several_keys_is_greater_than_those_of_each() {
    let shelf = Shelf::default();
    let early = LockManager::connect(Config::store(Ahead(shelf.clone())));
    let (early, locks) = (
        early.await.unwrap(),
        LockManager::connect(Config::store(shelf)),
    );
    let locks = locks.await.unwrap();
    // So it knows the clock.
    early.inspect("b").await.unwrap();
    let guard = early.lock("b").acquire().await.unwrap();
    let first = guard.fencing_token().await.unwrap();
    guard.release().await.unwrap();
    let guards = locks.lock_all(["a", "b"]).acquire().await.unwrap();
    let common = guards.fencing_token().await.unwrap();
    assert!(common > first, "{common} after {first}");
    guards.release().await.unwrap();
    for key in ["a", "b"] {
        let guard = locks.lock(key).acquire().await.unwrap();
        let next = guard.fencing_token().await.unwrap();
        assert!(next > common, "{key}: {next} after {common}");
        guard.release().await.unwrap();
    }
    early.shutdown().await;
    locks.shutdown().await;
}

#[tokio::test]
async fn ttl_that_no_record_can_keep_is_refused() {
    let locks = LockManager::connect(Config::store(Shelf::default()));
    let locks = locks.await.unwrap();
    let lock = locks.lock("row").ttl(Duration::from_secs(50 * 24 * 3600));
    let error = lock.try_acquire().await.unwrap_err();
    assert!(error.to_string().contains("`ttl`"), "{error}");
    locks.shutdown().await;
}
