//! Several processes wait for one lock: each is served, and a waiter that leaves does not keep the lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use lock_runtime::{LeaseInfo, LockError, LockGuard, LockManager};
use tokio::task::{JoinHandle, JoinSet};

use super::fixture::Fixture;
use lock_test_support::time::{PATIENCE, millis, soon, until, yield_in_time};
use tokio::time::Instant;

/// The lease of a grant.
const GRANT: Duration = Duration::from_secs(2);

fn waits(locks: &LockManager, key: &str) -> JoinHandle<Result<LockGuard, LockError>> {
    tokio::spawn(locks.lock(key).acquire())
}

/// The release alone wakes the waiter: by itself it polls after 50 ms, and less often later.
pub async fn released_lock_reaches_next_process_at_once(fixture: Fixture) {
    let door = fixture.key("door");
    let managers = fixture.both();
    let mut guard = managers[0].lock(&*door).acquire().await.unwrap();
    let mut times = Vec::new();
    for turn in 0..40 {
        let next = waits(&managers[(turn + 1) % 2], &door);
        tokio::time::sleep(millis(5)).await;
        let start = Instant::now();
        let (released, next) = tokio::join!(guard.release(), soon(next));
        times.push(start.elapsed());
        released.unwrap();
        guard = next.unwrap().unwrap();
        assert!(guard.is_valid());
    }
    guard.release().await.unwrap();
    // On a busy machine many turns are slow either way, but a turn that relies on polling is never fast.
    let quick = times.into_iter().min().unwrap();
    let limit = if fixture.tells_waiters() {
        millis(40)
    } else {
        millis(200)
    };
    assert!(quick < limit, "{quick:?} for the quickest turn");
}

/// A granted lock is held for as long as its guard lives, not only for the lease of the grant.
pub async fn granted_lock_is_renewed_by_new_holder(fixture: Fixture) {
    let door = fixture.key("door");
    let holder = fixture.other().lock(&*door).acquire().await.unwrap();
    let waiter = waits(fixture.locks(), &door);
    fixture.until_waiting(&door, 1).await;
    holder.release().await.unwrap();
    let guard = soon(waiter).await.unwrap().unwrap();
    let lease_is_its_own = async {
        loop {
            let found = fixture.other().inspect(&door).await.unwrap();
            match found.holders().first().and_then(|holder| holder.lease()) {
                Some(LeaseInfo::Ends(left)) if left < GRANT * 2 => {}
                Some(_) => return,
                None => {}
            }
            tokio::time::sleep(millis(5)).await;
        }
    };
    soon(lease_is_its_own).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    fixture.until_free(&door).await;
}

pub async fn waiter_that_leaves_is_skipped(fixture: Fixture) {
    let third = fixture.another().await;
    for (n, leaves_by_itself) in [true, false].into_iter().enumerate() {
        let door = fixture.key(&format!("door:{n}"));
        let holder = fixture.locks().lock(&*door).acquire().await.unwrap();
        let wait = if leaves_by_itself {
            millis(300)
        } else {
            PATIENCE
        };
        let first = tokio::spawn(fixture.other().lock(&*door).wait(wait).acquire());
        tokio::time::sleep(millis(50)).await;
        let second = waits(&third, &door);
        tokio::time::sleep(millis(50)).await;
        if !leaves_by_itself {
            first.abort();
        }
        if let Ok(left) = soon(first).await {
            let error = left.unwrap_err();
            assert!(error.is_busy() || error.is_unavailable(), "{error}");
        }
        holder.release().await.unwrap();
        let guard = soon(second).await.unwrap().unwrap();
        guard.release().await.unwrap();
        fixture.until_free(&door).await;
    }
    third.shutdown().await;
}

pub async fn many_canceled_waiters_lose_no_grant(fixture: Fixture) {
    let door = fixture.key("door");
    let managers = fixture.both();
    let mut tasks = JoinSet::new();
    for n in 0..40_u64 {
        let (locks, door) = (managers[n as usize % 2].clone(), door.clone());
        tasks.spawn(async move {
            for round in 0..20 {
                let patience = Duration::from_micros(n * 37 % 900 + round * 53 % 700);
                let lock = locks.lock(&*door);
                let _ = tokio::time::timeout(patience, lock.acquire()).await;
            }
            let guard = locks.lock(&*door).acquire().await.unwrap();
            let at = Instant::now();
            guard.release().await.unwrap();
            at
        });
    }
    let mut entries = soon(tasks.join_all()).await;
    entries.sort();
    let pauses = entries.windows(2).map(|pair| pair[1] - pair[0]);
    let longest = pauses.max().unwrap();
    // A lost grant costs two seconds, a lost lock half a minute.
    let limit = if fixture.tells_waiters() {
        millis(1900)
    } else {
        millis(8000)
    };
    assert!(longest < limit, "{longest:?}: a grant was lost");
    fixture.until_free(&door).await;
}

/// A process that acquires the lock over and over does not starve another one.
pub async fn busy_process_does_not_starve_others(fixture: Fixture) {
    let door = fixture.key("door");
    let over = Arc::new(AtomicBool::new(false));
    let taken = Arc::new(AtomicUsize::new(0));
    let mut crowd = JoinSet::new();
    for _ in 0..8 {
        let (locks, door) = (fixture.locks().clone(), door.clone());
        let (over, taken) = (over.clone(), taken.clone());
        crowd.spawn(async move {
            while !over.load(Relaxed) {
                let guard = locks.lock(&*door).acquire().await.unwrap();
                taken.fetch_add(1, Relaxed);
                yield_in_time().await;
                guard.release().await.unwrap();
            }
        });
    }
    for _ in 0..10 {
        let before = taken.load(Relaxed);
        let next = soon(waits(fixture.other(), &door)).await;
        next.unwrap().unwrap().release().await.unwrap();
        // Nor does the other process starve this one.
        until(|| taken.load(Relaxed) > before).await;
    }
    over.store(true, Relaxed);
    soon(crowd.join_all()).await;
}

/// Many waiters of one process do not make a waiter of another process wait for all of them.
pub async fn waiter_of_other_process_is_served_between_local_waiters(fixture: Fixture) {
    let door = fixture.key("door");
    let holder = fixture.locks().lock(&*door).acquire().await.unwrap();
    let served = Arc::new(AtomicUsize::new(0));
    let mut waiters = JoinSet::new();
    for _ in 0..300 {
        let lock = fixture.locks().lock(&*door);
        let served = served.clone();
        waiters.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            tokio::time::sleep(millis(1)).await;
            served.fetch_add(1, Relaxed);
            guard.release().await.unwrap();
        });
    }
    let guest = waits(fixture.other(), &door);
    fixture.until_waiting(&door, 1).await;
    holder.release().await.unwrap();
    let guest = soon(guest).await.unwrap().unwrap();
    let before = served.load(Relaxed);
    guest.release().await.unwrap();
    assert!(before < 200, "{before} of 300 were served first");
    soon(waiters.join_all()).await;
}

pub async fn shutdown_fails_waiters_and_removes_queue_entries(fixture: Fixture) {
    let door = fixture.key("door");
    let closes = fixture.another().await;
    let holder = fixture.locks().lock(&*door).acquire().await.unwrap();
    let first = waits(&closes, &door);
    fixture.until_waiting(&door, 1).await;
    let second = waits(fixture.other(), &door);
    fixture.until_waiting(&door, 2).await;
    soon(closes.shutdown()).await;
    let error = soon(first).await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
    holder.release().await.unwrap();
    let guard = soon(second).await.unwrap().unwrap();
    guard.release().await.unwrap();
    fixture.until_free(&door).await;
}
