//! Waiting is bounded and in order, and leaves no queue entry.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_runtime::{LockError, LockManager};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::fixture::Fixture;
use lock_test_support::executor::block_on;
use lock_test_support::time::{NOISE, begin, millis, soon};

pub async fn wait_is_bounded(fixture: Fixture) {
    let door = fixture.key("door");
    let holder = fixture.other().lock(&*door).acquire().await.unwrap();
    let (start, wait) = (Instant::now(), millis(800));
    let waits = fixture.locks().lock(&*door).wait(wait);
    let busy = waits.acquire().await.unwrap_err();
    let took = start.elapsed();
    assert!(wait <= took && took <= wait + NOISE, "{took:?}");
    assert!(
        busy.is_busy() && !busy.is_lost() && !busy.is_unavailable(),
        "{busy}"
    );
    assert_eq!(busy.key(), Some(&*door));
    let LockError::Busy { waited, .. } = busy else {
        panic!("{busy}")
    };
    assert!(wait <= waited && waited <= took, "{waited:?} of {took:?}");
    holder.release().await.unwrap();
}

pub async fn wait_is_bounded_behind_local_waiters(fixture: Fixture) {
    let door = fixture.key("door");
    let holder = fixture.locks().lock(&*door).acquire().await.unwrap();
    let mut waiters = JoinSet::new();
    let start = Instant::now();
    for _ in 0..5 {
        let lock = fixture.locks().lock(&*door).wait(millis(300));
        waiters.spawn(async move { lock.acquire().await.map(drop) });
    }
    while let Some(waiter) = waiters.join_next().await {
        assert!(waiter.unwrap().unwrap_err().is_busy());
    }
    fixture.at_most(millis(300), start);
    holder.release().await.unwrap();
}

pub async fn zero_wait_tries_once(fixture: Fixture) {
    let door = fixture.key("door");
    let holder = fixture.locks().lock(&*door).acquire().await.unwrap();
    for locks in fixture.both() {
        let start = Instant::now();
        assert!(locks.lock(&*door).try_acquire().await.unwrap().is_none());
        let tries = locks.lock(&*door).wait(Duration::ZERO);
        assert!(tries.acquire().await.unwrap_err().is_busy());
        fixture.at_most(Duration::ZERO, start);
    }
    holder.release().await.unwrap();
    let guard = fixture.locks().lock(&*door).try_acquire().await.unwrap();
    guard.expect("it is free").release().await.unwrap();
}

pub async fn unbounded_wait_acquires_lock(fixture: Fixture) {
    let door = fixture.key("door");
    let holder = fixture.other().lock(&*door).acquire().await.unwrap();
    let waiter = tokio::spawn(fixture.locks().lock(&*door).wait(Duration::MAX).acquire());
    tokio::time::sleep(millis(50)).await;
    assert!(!waiter.is_finished());
    holder.release().await.unwrap();
    let guard = soon(waiter).await.unwrap().unwrap();
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

pub async fn local_waiters_are_served_in_order(fixture: Fixture) {
    let door = fixture.key("door");
    // A waiter of another process would be served in between.
    let locks = fixture.another().await;
    let holder = locks.lock(&*door).acquire().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = JoinSet::new();
    for n in 0..20 {
        let mut acquire = Box::pin(locks.lock(&*door).acquire());
        // Now it waits in the local queue.
        assert!(begin(&mut acquire).is_pending());
        let order = order.clone();
        waiters.spawn(async move {
            let guard = acquire.await.unwrap();
            order.lock().unwrap().push(n);
            tokio::task::yield_now().await;
            guard.release().await.unwrap();
        });
    }
    holder.release().await.unwrap();
    soon(waiters.join_all()).await;
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    locks.shutdown().await;
}

/// One of three waiters gives up; the others acquire the lock soon.
pub async fn canceled_waiter_does_not_delay_others(fixture: Fixture) {
    for which in 0..3 {
        let door = fixture.key(&format!("door:{which}"));
        let holder = fixture.locks().lock(&*door).acquire().await.unwrap();
        let mut waiters = Vec::new();
        for _ in 0..3 {
            let mut acquire = Box::pin(fixture.locks().lock(&*door).acquire());
            assert!(begin(&mut acquire).is_pending());
            waiters.push(tokio::spawn(async move { acquire.await?.release().await }));
        }
        waiters.remove(which).abort();
        holder.release().await.unwrap();
        for waiter in waiters {
            soon(waiter).await.unwrap().unwrap();
        }
        fixture.until_free(&door).await;
    }
}

/// `Duration::MAX` is one of them, as it is for `wait`.
pub async fn timeouts_have_no_upper_limit(fixture: Fixture) {
    let config = fixture.config().connect_timeout(Duration::MAX);
    let config = config.command_timeout(Duration::MAX);
    let locks = soon(fixture.connect(config)).await;
    let door = fixture.key("door");
    let holder = fixture.other().lock(&*door).acquire().await.unwrap();
    let mut waiter = Box::pin(locks.lock(&*door).acquire());
    assert!(begin(&mut waiter).is_pending());
    holder.release().await.unwrap();
    soon(async {
        waiter.await.unwrap().release().await.unwrap();
        drop(locks.lock(&*door).try_acquire().await.unwrap().unwrap());
        locks.shutdown().await;
    })
    .await;
    assert!(!fixture.is_held(&door).await);
}

pub async fn different_keys_do_not_block_each_other(fixture: Fixture) {
    let (door, gate) = (fixture.key("door"), fixture.key("gate"));
    let holder = fixture.locks().lock(&*door).acquire().await.unwrap();
    let mut waiter = Box::pin(fixture.locks().lock(&*door).acquire());
    assert!(begin(&mut waiter).is_pending());
    let other = soon(fixture.locks().lock(&*gate).acquire()).await;
    other.unwrap().release().await.unwrap();
    holder.release().await.unwrap();
    let guard = soon(waiter).await.unwrap();
    guard.release().await.unwrap();
}

pub async fn lock_has_one_holder_at_a_time(fixture: Fixture) {
    let door = fixture.key("door");
    let managers = fixture.both();
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for n in 0..40 {
        let lock = managers[n % 2].lock(&*door);
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
    let others = soon(tasks.join_all()).await;
    assert_eq!(others.into_iter().max(), Some(0));
}

/// A guard whose lease has ended no longer holds the lock, however long it is kept.
pub async fn expired_guard_does_not_block_next_holder(fixture: Fixture) {
    let mut rounds = JoinSet::new();
    for n in 0..4 {
        let (fixture, locks) = (fixture.clone(), fixture.both()[n % 2].clone());
        rounds.spawn(async move {
            let door = fixture.key(&n.to_string());
            let lock = fixture.locks().lock(&*door).renew(false);
            let expired = lock.ttl(fixture.short_lease()).acquire().await.unwrap();
            assert!(soon(expired.lost()).await.is_lost());
            // On the server the lease ends slightly later.
            if n < 2 {
                fixture.until_free(&door).await;
            }
            let next = soon(locks.lock(&*door).acquire()).await.unwrap();
            drop(expired);
            tokio::time::sleep(millis(20)).await;
            assert!(next.is_valid());
            assert!(
                fixture.is_held(&door).await,
                "the late drop does not release the next holder's lock"
            );
            next.release().await.unwrap();
        });
    }
    rounds.join_all().await;
}

/// On a thread in no runtime, of tokio or another.
pub async fn callers_without_a_runtime_connect_wait_and_hold(fixture: Fixture) {
    let order = fixture.key("order");
    let held = fixture.locks().lock(&*order).acquire().await.unwrap();
    let (config, key) = (fixture.config(), order.clone());
    let call = async move {
        let locks = LockManager::connect(config).await?;
        let lock = locks.lock(key);
        let valid = lock.run(async |lock| lock.is_valid()).await;
        locks.shutdown().await;
        valid
    };
    let caller = tokio::task::spawn_blocking(|| {
        let thread = std::thread::spawn(|| block_on(call));
        thread.join().unwrap()
    });
    tokio::time::sleep(millis(200)).await;
    assert!(!caller.is_finished());
    held.release().await.unwrap();
    assert!(soon(caller).await.unwrap().unwrap());
    fixture.until_free(&order).await;
}
