//! Waiting is bounded, in order, and leaves no trace.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lock_runtime::{LockError, LockManager, distributed_lock};
use tokio::task::{JoinSet, yield_now};

use crate::Site;
use crate::time::{NOISE, millis, within};

#[tokio::test]
async fn it_is_bounded() {
    let site = Site::start().await;
    let other = site.another().await;
    let holder = other.lock("door").acquire().await.unwrap();
    let start = Instant::now();
    let busy = site
        .locks()
        .lock("door")
        .wait(millis(300))
        .acquire()
        .await
        .unwrap_err();
    let took = start.elapsed();
    assert!(
        took >= millis(300) && took < millis(300) + NOISE,
        "{took:?}"
    );
    assert!(
        busy.is_busy() && !busy.is_lost() && !busy.is_unavailable(),
        "{busy}"
    );
    assert_eq!(busy.key(), Some("door"));
    let LockError::Busy { waited, .. } = busy else {
        panic!("{busy}")
    };
    assert!(
        waited >= millis(290) && waited <= took,
        "{waited:?} of {took:?}"
    );
    holder.release().await.unwrap();
}

#[tokio::test]
async fn it_is_bounded_behind_others_of_the_same_process() {
    let site = Site::start().await;
    let holder = site.locks().lock("door").acquire().await.unwrap();
    let mut waiters = JoinSet::new();
    let start = Instant::now();
    for _ in 0..5 {
        let lock = site.locks().lock("door").wait(millis(300));
        waiters.spawn(async move { lock.acquire().await.map(drop) });
    }
    while let Some(waiter) = waiters.join_next().await {
        assert!(waiter.unwrap().unwrap_err().is_busy());
    }
    assert!(
        start.elapsed() < millis(300) + NOISE,
        "{:?}",
        start.elapsed()
    );
    holder.release().await.unwrap();
}

#[distributed_lock(key = "door", manager = locks, wait = "0s", on_busy = Ok("busy"))]
async fn at_once(locks: &LockManager) -> Result<&'static str, LockError> {
    Ok("in")
}

#[tokio::test]
async fn no_wait_is_one_try() {
    let site = Site::start().await;
    let holder = site.locks().lock("door").acquire().await.unwrap();
    for locks in [site.locks(), &site.another().await] {
        let start = Instant::now();
        assert!(locks.lock("door").try_acquire().await.unwrap().is_none());
        assert!(
            locks
                .lock("door")
                .wait(Duration::ZERO)
                .acquire()
                .await
                .unwrap_err()
                .is_busy()
        );
        assert_eq!(at_once(locks).await.unwrap(), "busy");
        assert!(start.elapsed() < NOISE, "{:?}", start.elapsed());
    }
    holder.release().await.unwrap();
    assert_eq!(at_once(site.locks()).await.unwrap(), "in");
}

#[tokio::test]
async fn who_waits_for_ever_gets_it_in_the_end() {
    let site = Site::start().await;
    let holder = site.another().await.lock("door").acquire().await.unwrap();
    let waiter = site.locks().lock("door").wait(Duration::MAX);
    let waiter = tokio::spawn(async move { waiter.acquire().await });
    tokio::time::sleep(millis(50)).await;
    assert!(!waiter.is_finished());
    holder.release().await.unwrap();
    let guard = within(NOISE, waiter).await.unwrap().unwrap();
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn waiters_of_a_process_come_in_order() {
    let site = Site::start().await;
    let holder = site.locks().lock("door").acquire().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = JoinSet::new();
    for n in 0..20 {
        let lock = site.locks().lock("door").wait(millis(20_000));
        let order = order.clone();
        waiters.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            order.lock().unwrap().push(n);
            yield_now().await;
            guard.release().await.unwrap();
        });
        // On this one thread the waiter has now begun to wait.
        yield_now().await;
    }
    holder.release().await.unwrap();
    within(millis(10_000), waiters.join_all()).await;
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

/// Of three waiters one gives up; the others get the lock, soon.
async fn when_one_gives_up(which: usize) {
    let site = Site::start().await;
    let holder = site.locks().lock("door").acquire().await.unwrap();
    let mut waiters = Vec::new();
    for _ in 0..3 {
        let lock = site.locks().lock("door").wait(millis(20_000));
        waiters.push(tokio::spawn(async move {
            lock.acquire().await.unwrap().release().await
        }));
        yield_now().await;
    }
    waiters.remove(which).abort();
    holder.release().await.unwrap();
    for waiter in waiters {
        within(NOISE, waiter).await.unwrap().unwrap();
    }
    assert!(!site.is_held("door"));
}

#[tokio::test]
async fn the_first_waiter_may_give_up() {
    when_one_gives_up(0).await;
}

#[tokio::test]
async fn a_waiter_between_may_give_up() {
    when_one_gives_up(1).await;
}

#[tokio::test]
async fn the_last_waiter_may_give_up() {
    when_one_gives_up(2).await;
}

#[tokio::test]
async fn keys_do_not_wait_for_one_another() {
    let site = Site::start().await;
    let door = site.locks().lock("door").acquire().await.unwrap();
    let waiter = site.locks().lock("door").wait(millis(20_000));
    let waiter = tokio::spawn(async move { waiter.acquire().await });
    yield_now().await;
    let gate = within(NOISE, site.locks().lock("gate").acquire())
        .await
        .unwrap();
    gate.release().await.unwrap();
    door.release().await.unwrap();
    within(NOISE, waiter)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn one_holder_at_a_time() {
    let site = Site::start().await;
    let managers = [site.locks().clone(), site.another().await];
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for n in 0..40 {
        let lock = managers[n % 2].lock("door").wait(millis(30_000));
        let inside = inside.clone();
        tasks.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            let others = inside.fetch_add(1, Relaxed);
            tokio::time::sleep(millis(1)).await;
            inside.fetch_sub(1, Relaxed);
            guard.release().await.unwrap();
            others
        });
    }
    let others = within(millis(30_000), tasks.join_all()).await;
    assert_eq!(others.into_iter().max(), Some(0));
}

/// A guard whose lease has ended isn't the holder any more, however long it's kept.
#[tokio::test]
async fn an_expired_guard_is_in_nobodys_way() {
    let site = Site::start().await;
    for locks in [site.locks(), &site.another().await] {
        for waits in [false, true] {
            let lock = site.locks().lock("door").ttl(millis(200)).renew(false);
            let expired = lock.acquire().await.unwrap();
            assert!(within(NOISE, expired.lost()).await.is_lost());
            // The server's clock and ours may differ by the margin.
            tokio::time::sleep(millis(20)).await;
            let next = locks.lock("door");
            let next = match waits {
                true => within(millis(200) + NOISE, next.acquire()).await.unwrap(),
                false => next.try_acquire().await.unwrap().expect("the lock is free"),
            };
            drop(expired);
            tokio::time::sleep(millis(20)).await;
            assert!(next.is_valid());
            assert!(
                site.is_held("door"),
                "dropped late, it takes nothing from the next one"
            );
            next.release().await.unwrap();
        }
    }
}

/// Many in one process don't keep the one in another process waiting till they all have had it.
#[tokio::test]
async fn other_processes_have_their_turn() {
    let site = Site::start().await;
    let other = site.another().await;
    let holder = site.locks().lock("door").acquire().await.unwrap();
    let served = Arc::new(AtomicUsize::new(0));
    let mut waiters = JoinSet::new();
    for _ in 0..400 {
        let lock = site.locks().lock("door").wait(millis(60_000));
        let served = served.clone();
        waiters.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            tokio::time::sleep(millis(1)).await;
            served.fetch_add(1, Relaxed);
            guard.release().await.unwrap();
        });
    }
    let guest = other.lock("door").wait(millis(60_000));
    let guest = tokio::spawn(async move { guest.acquire().await });
    tokio::time::sleep(millis(100)).await;
    holder.release().await.unwrap();
    let guest = within(millis(20_000), guest).await.unwrap().unwrap();
    let before = served.load(Relaxed);
    guest.release().await.unwrap();
    assert!(before < 200, "{before} of 400 came before it");
    within(millis(60_000), waiters.join_all()).await;
}
