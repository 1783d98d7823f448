//! A lease that ends by itself, as with `min_hold` or by a crash, serves the queue first: no newcomer overtakes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use lock_runtime::{Lock, LockManager};
use tokio::task::JoinSet;

use lock_test_support::manager::connected;
use lock_test_support::pgbouncer::PgBouncer;
use lock_test_support::postgres::Postgres;
use lock_test_support::time::{NOISE, Stopwatch, millis, patient, within};

const LONG: Duration = millis(20_000);
const MIN_HOLD: Duration = millis(50);

/// Returns for how long each of several callers waited, while two other processes tried all the time.
async fn waits_beside_pollers(
    server: &Postgres,
    url: &str,
    lock: fn(&LockManager) -> Lock,
) -> Vec<Duration> {
    let ends = Arc::new(AtomicBool::new(false));
    let holds = Arc::new(AtomicUsize::new(0));
    let mut pollers = JoinSet::new();
    for _ in 0..2 {
        let (locks, ends, holds) = (connected(patient(url)).await, ends.clone(), holds.clone());
        pollers.spawn(async move {
            while !ends.load(Relaxed) {
                if let Some(guard) = lock(&locks).try_acquire().await.unwrap() {
                    guard.release().await.unwrap();
                    holds.fetch_add(1, Relaxed);
                }
                tokio::time::sleep(millis(1)).await;
            }
            locks.shutdown().await;
        });
    }
    let waiter = connected(patient(url)).await;
    let mut waits = Vec::new();
    for _ in 0..5 {
        let before = holds.load(Relaxed);
        while holds.load(Relaxed) < before + 2 {
            tokio::time::sleep(millis(1)).await;
        }
        let watch = Stopwatch::start();
        let guard = within(LONG, lock(&waiter).wait(LONG).acquire()).await;
        waits.push(watch.elapsed());
        guard.unwrap().release().await.unwrap();
    }
    ends.store(true, Relaxed);
    within(LONG, pollers.join_all()).await;
    server.until_gone("row", NOISE);
    waits
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn end_of_min_hold_serves_the_queue_before_newcomers() {
    let server = Postgres::start();
    let pooler = PgBouncer::to(server.port());
    let exclusive = |locks: &LockManager| locks.lock("row").min_hold(MIN_HOLD);
    let permits = |locks: &LockManager| locks.lock("row").permits(2).min_hold(MIN_HOLD);
    for (url, asks_within) in [(server.url(), 0), (pooler.url(), 500)] {
        for lock in [exclusive, permits] {
            let waits = waits_beside_pollers(&server, &url, lock).await;
            let bound = MIN_HOLD * 2 + millis(asks_within) + NOISE;
            assert!(waits.iter().all(|waited| *waited < bound), "{waits:?}");
        }
    }
}
