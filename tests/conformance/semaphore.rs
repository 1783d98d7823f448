//! Semaphores: a number of permits for all processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use lock_runtime::{LockError, LockManager};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::fixture::{Fixture, is_refused};
use lock_test_support::time::{millis, soon, until};

pub async fn permits_bound_the_holders_of_all_processes(fixture: Fixture) {
    let api = fixture.key("api");
    if !fixture.has_permits() {
        let refused = fixture.locks().lock(&*api).permits(3).acquire().await;
        let is_refused = |option| {
            matches!(
                option,
                Err(LockError::Unsupported {
                    operation: "permits",
                    ..
                })
            )
        };
        assert!(is_refused(refused), "a quorum can't count holders");
        return;
    }
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for n in 0..12 {
        let (locks, api) = (fixture.both()[n % 2].clone(), api.clone());
        let (inside, most) = (inside.clone(), most.clone());
        tasks.spawn(async move {
            for _ in 0..8 {
                let lock = locks.lock(&*api).permits(3);
                let guard = lock.acquire().await.unwrap();
                most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                // Until as many as may were inside at once.
                until(|| most.load(SeqCst) >= 3).await;
                tokio::time::sleep(millis(5)).await;
                assert!(guard.is_valid());
                inside.fetch_sub(1, SeqCst);
                guard.release().await.unwrap();
            }
        });
    }
    soon(tasks.join_all()).await;
    assert_eq!(most.load(SeqCst), 3);
    fixture.until_free(&api).await;
}

/// A rate limit: no more calls than there are permits acquire the lock within any `min_hold`.
pub async fn permits_with_min_hold_limit_a_rate(fixture: Fixture) {
    if !fixture.has_permits() {
        return;
    }
    let api = fixture.key("api");
    let period = millis(300);
    let begun = Instant::now();
    let mut calls = JoinSet::new();
    for n in 0..9 {
        let lock = fixture.both()[n % 2].lock(&*api).permits(3);
        calls.spawn(lock.min_hold(period).run(async |_| ()));
    }
    for ended in soon(calls.join_all()).await {
        ended.unwrap();
    }
    assert!(begun.elapsed() >= period * 2, "{:?}", begun.elapsed());
    fixture.until_free(&api).await;
}

pub async fn exclusive_holder_waits_for_all_permits(fixture: Fixture) {
    if !fixture.has_permits() {
        return;
    }
    let api = fixture.key("api");
    let [ours, theirs] = fixture.both();
    let permit = |locks: &LockManager| locks.lock(&*api).permits(2);
    let one = permit(&ours).acquire().await.unwrap();
    let two = permit(&theirs).acquire().await.unwrap();
    let exclusive = tokio::spawn(ours.lock(&*api).acquire());
    fixture.until_waiting(&api, 1).await;
    one.release().await.unwrap();
    tokio::time::sleep(millis(100)).await;
    // A permit is free, and yet the exclusive holder is next.
    assert!(permit(&theirs).try_acquire().await.unwrap().is_none());
    assert!(!exclusive.is_finished());
    two.release().await.unwrap();
    let exclusive = soon(exclusive).await.unwrap().unwrap();
    assert!(permit(&theirs).try_acquire().await.unwrap().is_none());
    exclusive.release().await.unwrap();
    fixture.until_free(&api).await;
}

/// Processes that disagree, as during a deployment.
pub async fn lowest_number_of_permits_counts(fixture: Fixture) {
    if !fixture.has_permits() {
        return;
    }
    let api = fixture.key("api");
    let [ours, theirs] = fixture.both();
    let permit = |locks: &LockManager, permits| locks.lock(&*api).permits(permits).try_acquire();
    let mut old = Vec::new();
    for _ in 0..3 {
        old.push(permit(&ours, 5).await.unwrap().unwrap());
    }
    assert!(permit(&theirs, 3).await.unwrap().is_none());
    old.pop().unwrap().release().await.unwrap();
    let new = permit(&theirs, 3).await.unwrap().unwrap();
    assert!(permit(&ours, 5).await.unwrap().is_none());
    new.release().await.unwrap();
    for _ in 0..3 {
        old.push(permit(&ours, 5).await.unwrap().unwrap());
    }
    assert!(permit(&ours, 5).await.unwrap().is_none());
    for guard in old {
        guard.release().await.unwrap();
    }
    let alone = permit(&ours, 1).await.unwrap().unwrap();
    assert!(theirs.lock(&*api).try_acquire().await.unwrap().is_none());
    alone.release().await.unwrap();
}

pub async fn permits_are_validated(fixture: Fixture) {
    let api = fixture.key("api");
    let lock = || fixture.locks().lock(&*api);
    for lock in [
        lock().permits(0),
        lock().permits(2047),
        lock().read().permits(2),
    ] {
        let refused = lock.acquire().await.unwrap_err();
        assert!(is_refused(&refused, "permits"), "{refused}");
    }
    if !fixture.has_permits() {
        let refused = lock().permits(2).acquire().await.unwrap_err();
        assert!(matches!(refused, LockError::Unsupported { .. }));
    } else {
        let guard = lock().permits(2).acquire().await.unwrap();
        let refused = guard.fencing_token().await.unwrap_err();
        assert!(matches!(refused, LockError::Unsupported { .. }));
        let refused = guard.downgrade().await.unwrap_err();
        assert!(matches!(refused, LockError::Unsupported { .. }));
    }
    fixture.until_free(&api).await;
}

pub async fn waiting_permits_are_granted_in_order(fixture: Fixture) {
    if !fixture.has_permits() {
        return;
    }
    let api = fixture.key("api");
    let managers = [fixture.another().await, fixture.another().await];
    let permit = |n: usize| managers[n % 2].lock(&*api).permits(2);
    let mut held = vec![
        permit(0).acquire().await.unwrap(),
        permit(1).acquire().await.unwrap(),
    ];
    let (tell, mut order) = tokio::sync::mpsc::unbounded_channel();
    let mut waiters = JoinSet::new();
    for n in 0..6 {
        let (lock, tell) = (permit(n), tell.clone());
        waiters.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            tell.send(n).unwrap();
            guard
        });
        until(|| managers[n % 2].stats().waiting == n as u64 / 2 + 1).await;
    }
    for _ in 0..6 {
        held.pop().unwrap().release().await.unwrap();
        held.push(soon(waiters.join_next()).await.unwrap().unwrap());
    }
    drop(tell);
    let mut last = [None; 2];
    // Each process's waiters in order; those of several processes take turns.
    while let Some(n) = order.recv().await {
        assert!(last[n % 2] < Some(n), "{n} after {last:?}");
        last[n % 2] = Some(n);
    }
    for guard in held {
        guard.release().await.unwrap();
    }
    fixture.until_free(&api).await;
    for locks in managers {
        locks.shutdown().await;
    }
}

/// The end of a lease and the limit of its holder share one number in Redis.
pub async fn longest_ttl_keeps_the_limit(fixture: Fixture) {
    if !fixture.has_permits() {
        return;
    }
    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

    let api = fixture.key("api");
    let lock = || fixture.locks().lock(&*api).permits(2);
    let longer = lock().ttl(YEAR + millis(1)).acquire().await.unwrap_err();
    assert!(is_refused(&longer, "ttl"), "{longer}");
    let one = match lock().ttl(YEAR).acquire().await {
        Ok(one) => one,
        // A session of ZooKeeper does not live for that long.
        Err(error) => return assert!(is_refused(&error, "ttl"), "{error}"),
    };
    let other = fixture.other().lock(&*api).permits(2).ttl(YEAR);
    let other = other.acquire().await.unwrap();
    assert!(lock().try_acquire().await.unwrap().is_none());
    one.release().await.unwrap();
    other.release().await.unwrap();
    fixture.until_free(&api).await;
}
