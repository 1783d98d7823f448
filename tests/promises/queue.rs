//! Several processes wait for one lock: each is served, and who leaves takes nothing along.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use lock_runtime::{LockError, LockGuard, LockManager};
use tokio::task::{JoinHandle, JoinSet, yield_now};

use crate::Site;
use crate::time::{NOISE, millis, within};

const LONG: Duration = Duration::from_secs(60);

fn waits(locks: &LockManager, wait: Duration) -> JoinHandle<Result<LockGuard, LockError>> {
    tokio::spawn(locks.lock("door").wait(wait).acquire())
}

/// Nothing is waited for but the release: far sooner than anybody asks again by himself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_lock_is_with_the_next_process_at_once() {
    let site = Site::start().await;
    let managers = [site.locks().clone(), site.another().await];
    let mut guard = managers[0].lock("door").acquire().await.unwrap();
    let start = Instant::now();
    for turn in 0..100 {
        let next = waits(&managers[(turn + 1) % 2], LONG);
        tokio::time::sleep(millis(2)).await;
        guard.release().await.unwrap();
        guard = within(NOISE, next).await.unwrap().unwrap();
        assert!(guard.is_valid());
    }
    let took = start.elapsed();
    assert!(
        took < millis(200) + NOISE * 2,
        "{took:?} for a hundred turns"
    );
    guard.release().await.unwrap();
}

/// A lock that was handed on is held for as long as its guard lives, and not only for the moment
/// for which it was granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_was_handed_on_is_kept() {
    let site = Site::start().await;
    let other = site.another().await;
    let holder = other.lock("door").acquire().await.unwrap();
    let waiter = waits(site.locks(), LONG);
    tokio::time::sleep(millis(50)).await;
    holder.release().await.unwrap();
    let guard = within(NOISE, waiter).await.unwrap().unwrap();
    tokio::time::sleep(millis(2500)).await;
    assert!(guard.is_valid() && site.is_held("door"));
    guard.release().await.unwrap();
    site.until_free("door", NOISE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_leaves_is_passed_over() {
    let site = Site::start().await;
    let managers = [site.another().await, site.another().await];
    for leaves_by_itself in [true, false] {
        let holder = site.locks().lock("door").acquire().await.unwrap();
        let wait = if leaves_by_itself { millis(100) } else { LONG };
        let first = waits(&managers[0], wait);
        tokio::time::sleep(millis(50)).await;
        let second = waits(&managers[1], LONG);
        tokio::time::sleep(millis(50)).await;
        if !leaves_by_itself {
            first.abort();
        }
        let left = within(NOISE, first).await;
        assert!(left.is_err() || left.unwrap().unwrap_err().is_busy());
        holder.release().await.unwrap();
        let guard = within(NOISE, second).await.unwrap().unwrap();
        guard.release().await.unwrap();
        assert!(!site.is_held("door"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_leave_cost_nobody_the_lock() {
    let site = Site::start().await;
    let managers = [
        site.locks().clone(),
        site.another().await,
        site.another().await,
    ];
    let mut tasks = JoinSet::new();
    for n in 0..60_u64 {
        let locks = managers[n as usize % 3].clone();
        tasks.spawn(async move {
            for round in 0..30 {
                let patience = Duration::from_micros(n * 37 % 900 + round * 53 % 700);
                let lock = locks.lock("door").wait(LONG);
                let _ = tokio::time::timeout(patience, lock.acquire()).await;
            }
            let start = Instant::now();
            let guard = locks.lock("door").wait(LONG).acquire().await.unwrap();
            let waited = start.elapsed();
            guard.release().await.unwrap();
            waited
        });
    }
    let waited = within(LONG, tasks.join_all()).await;
    let longest = waited.into_iter().max().unwrap();
    assert!(longest < millis(1500), "{longest:?}: a grant was lost");
    site.until_free("door", NOISE);
}

/// One process that takes the lock over and over doesn't keep another one from it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_process_lets_others_in() {
    let site = Site::start().await;
    let other = site.another().await;
    let over = Arc::new(AtomicBool::new(false));
    let taken = Arc::new(AtomicUsize::new(0));
    let mut crowd = JoinSet::new();
    for _ in 0..8 {
        let (locks, over, taken) = (site.locks().clone(), over.clone(), taken.clone());
        crowd.spawn(async move {
            while !over.load(Relaxed) {
                let guard = locks.lock("door").wait(LONG).acquire().await.unwrap();
                taken.fetch_add(1, Relaxed);
                yield_now().await;
                guard.release().await.unwrap();
            }
        });
    }
    for _ in 0..20 {
        let before = taken.load(Relaxed);
        let guard = within(NOISE, waits(&other, LONG)).await.unwrap().unwrap();
        guard.release().await.unwrap();
        tokio::time::sleep(millis(5)).await;
        assert!(taken.load(Relaxed) > before, "nor the other way round");
    }
    over.store(true, Relaxed);
    within(NOISE, crowd.join_all()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_sends_those_who_wait_away() {
    let site = Site::start().await;
    let managers = [site.another().await, site.another().await];
    let holder = site.locks().lock("door").acquire().await.unwrap();
    let first = waits(&managers[0], LONG);
    tokio::time::sleep(millis(50)).await;
    let second = waits(&managers[1], LONG);
    tokio::time::sleep(millis(50)).await;
    within(NOISE, managers[0].shutdown()).await;
    let error = within(millis(50), first).await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
    holder.release().await.unwrap();
    let guard = within(NOISE, second).await.unwrap().unwrap();
    guard.release().await.unwrap();
    assert!(!site.is_held("door"));
}
