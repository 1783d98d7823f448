//! Holders that learn that another process waits: `LockGuard::wanted`.

use std::pin::pin;
use std::time::Duration;

use lock_runtime::{LockGuard, LockManager};

use super::fixture::Fixture;
use super::lazy::{TTL, is_kept, lazy};
use lock_test_support::executor::block_on;
use lock_test_support::time::{begin, millis, soon};
use tokio::time::Instant;

/// Checks that no process waits elsewhere, where time costs nothing for longer than the second in which the
/// library looks.
async fn is_unwanted(fixture: &Fixture, guard: &LockGuard) {
    let moment = millis(if fixture.is_virtual() { 1300 } else { 300 });
    let early = tokio::time::timeout(moment, guard.wanted()).await;
    assert!(early.is_err(), "no process waits elsewhere");
}

/// Told at once where recalls are heard, and otherwise within the second in which the library looks.
pub async fn holder_hears_that_another_process_waits(fixture: Fixture) {
    let (locks, row) = (fixture.another().await, fixture.key("row"));
    is_kept(&fixture, &locks, || lazy(&locks, &row)).await;
    for (lock, limit) in [
        (lazy(&locks, &row), if fixture.keeps() { 0 } else { 1 }),
        (locks.lock(&*row).ttl(TTL), 1),
        (
            locks.lock_all([row.clone(), fixture.key("other")]).ttl(TTL),
            2,
        ),
    ] {
        let guard = lock.acquire().await.unwrap();
        // A caller of the process itself does not count.
        let own = locks.lock(&*row).ttl(TTL);
        let own = tokio::spawn(own.run(async |_| ()));
        is_unwanted(&fixture, &guard).await;
        let waits = fixture.other().lock(&*row).ttl(TTL);
        let watch = Instant::now();
        let waiter = tokio::spawn(waits.run(async |_| ()));
        soon(guard.wanted()).await;
        fixture.at_most(Duration::from_secs(limit), watch);
        soon(guard.wanted()).await;
        guard.release().await.unwrap();
        for waiter in [own, waiter] {
            soon(waiter).await.unwrap().unwrap();
        }
    }
    locks.shutdown().await;
}

/// It could not keep the lock.
pub async fn holder_that_has_waited_hears_that_another_process_waits(fixture: Fixture) {
    let (locks, row) = (fixture.another().await, fixture.key("row"));
    let first = fixture.other().lock(&*row).ttl(TTL);
    let first = first.acquire().await.unwrap();
    let waits = tokio::spawn(lazy(&locks, &row).acquire());
    fixture.until_waiting(&row, 1).await;
    first.release().await.unwrap();
    let guard = soon(waits).await.unwrap().unwrap();
    let waits = fixture.other().lock(&*row).ttl(TTL);
    let watch = Instant::now();
    let waiter = tokio::spawn(waits.run(async |_| ()));
    soon(guard.wanted()).await;
    let limit = if fixture.keeps() { 0 } else { 1 };
    fixture.at_most(Duration::from_secs(limit), watch);
    guard.release().await.unwrap();
    soon(waiter).await.unwrap().unwrap();
    assert_eq!(locks.stats().recalled, 0);
    locks.shutdown().await;
}

/// As in a `select!` with a branch that is nearly always ready.
pub async fn waits_for_others_that_are_dropped_at_once_add_up(fixture: Fixture) {
    let row = fixture.key("row");
    let holder = fixture.locks().lock(&*row).ttl(TTL);
    let guard = holder.acquire().await.unwrap();
    let waits = fixture.other().lock(&*row).ttl(TTL);
    let waiter = tokio::spawn(waits.run(async |_| ()));
    let hears = async {
        loop {
            tokio::select! {
                biased;
                () = guard.wanted() => return,
                () = tokio::time::sleep(millis(1)) => {}
            }
        }
    };
    soon(hears).await;
    guard.release().await.unwrap();
    soon(waiter).await.unwrap().unwrap();
}

/// On a thread in no runtime, of tokio or another.
pub async fn holder_without_a_runtime_hears_that_another_process_waits(fixture: Fixture) {
    let row = fixture.key("row");
    let guard = fixture.locks().lock(&*row).acquire().await.unwrap();
    let (tell, listens) = tokio::sync::oneshot::channel();
    let holder = tokio::task::spawn_blocking(|| {
        let hears = async move {
            {
                let mut wanted = pin!(guard.wanted());
                assert!(begin(&mut wanted).is_pending());
                tell.send(()).unwrap();
                wanted.await;
            }
            guard.release().await
        };
        let thread = std::thread::spawn(|| block_on(hears));
        thread.join().unwrap()
    });
    listens.await.unwrap();
    let waits = fixture.other().lock(&*row).ttl(TTL);
    soon(waits.run(async |_| ())).await.unwrap();
    holder.await.unwrap().unwrap();
}

/// Although the process has held the lock all the time.
pub async fn guard_is_wanted_by_none_that_an_earlier_one_let_in(fixture: Fixture) {
    if !fixture.has_permits() {
        return;
    }
    let row = fixture.key("row");
    let two = |locks: &LockManager| locks.lock(&*row).permits(2).ttl(TTL);
    let _other = two(fixture.locks()).acquire().await.unwrap();
    let guard = two(fixture.locks()).acquire().await.unwrap();
    let waiter = tokio::spawn(two(fixture.other()).run(async |_| ()));
    soon(guard.wanted()).await;
    guard.release().await.unwrap();
    soon(waiter).await.unwrap().unwrap();
    is_unwanted(&fixture, &two(fixture.locks()).acquire().await.unwrap()).await;

    let door = fixture.key("door");
    let guard = lazy(fixture.locks(), &door).acquire().await.unwrap();
    let reads = fixture.other().lock(&*door).read().ttl(TTL);
    let reader = tokio::spawn(reads.run(async |_| ()));
    soon(guard.wanted()).await;
    let guard = guard.downgrade().await.unwrap();
    soon(reader).await.unwrap().unwrap();
    is_unwanted(&fixture, &guard).await;
}

/// Its manager hears nothing any more.
pub async fn last_guard_of_a_manager_learns_that_another_process_waits(fixture: Fixture) {
    let (locks, row) = (fixture.another().await, fixture.key("row"));
    is_kept(&fixture, &locks, || lazy(&locks, &row)).await;
    let guard = lazy(&locks, &row).acquire().await.unwrap();
    drop(locks);
    let waits = fixture.other().lock(&*row).ttl(TTL);
    let waiter = tokio::spawn(waits.run(async |_| ()));
    soon(guard.wanted()).await;
    guard.release().await.unwrap();
    soon(waiter).await.unwrap().unwrap();
}

pub async fn loss_ends_the_wait_for_others(fixture: Fixture) {
    let lock = fixture.locks().lock(fixture.key("row")).renew(false);
    let guard = lock.ttl(fixture.short_lease()).acquire().await.unwrap();
    soon(guard.wanted()).await;
    assert!(!guard.is_valid());
}
