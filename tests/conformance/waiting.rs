//! Waiting is bounded, in order, and leaves no trace.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lock_runtime::LockError;
use tokio::task::JoinSet;

use super::site::Site;
use crate::support::time::{NOISE, Stopwatch, begin, millis, within};

pub async fn it_is_bounded(site: Site) {
    let door = site.key("door");
    let holder = site.other().lock(&*door).acquire().await.unwrap();
    let (start, watch) = (Instant::now(), Stopwatch::start());
    let waits = site.locks().lock(&*door).wait(millis(800));
    let busy = waits.acquire().await.unwrap_err();
    let took = start.elapsed();
    assert!(
        took >= millis(800) && watch.elapsed() < millis(800) + NOISE,
        "{took:?}"
    );
    assert!(
        busy.is_busy() && !busy.is_lost() && !busy.is_unavailable(),
        "{busy}"
    );
    assert_eq!(busy.key(), Some(&*door));
    let LockError::Busy { waited, .. } = busy else {
        panic!("{busy}")
    };
    assert!(
        waited >= millis(790) && waited <= took,
        "{waited:?} of {took:?}"
    );
    holder.release().await.unwrap();
}

pub async fn it_is_bounded_behind_others_of_the_same_process(site: Site) {
    let door = site.key("door");
    let holder = site.locks().lock(&*door).acquire().await.unwrap();
    let mut waiters = JoinSet::new();
    let start = Stopwatch::start();
    for _ in 0..5 {
        let lock = site.locks().lock(&*door).wait(millis(300));
        waiters.spawn(async move { lock.acquire().await.map(drop) });
    }
    while let Some(waiter) = waiters.join_next().await {
        assert!(waiter.unwrap().unwrap_err().is_busy());
    }
    let took = start.elapsed();
    assert!(took < millis(300) + NOISE, "{took:?}");
    holder.release().await.unwrap();
}

pub async fn no_wait_is_one_try(site: Site) {
    let door = site.key("door");
    let holder = site.locks().lock(&*door).acquire().await.unwrap();
    for locks in site.both() {
        let start = Stopwatch::start();
        assert!(locks.lock(&*door).try_acquire().await.unwrap().is_none());
        let tries = locks.lock(&*door).wait(Duration::ZERO);
        assert!(tries.acquire().await.unwrap_err().is_busy());
        let took = start.elapsed();
        assert!(took < NOISE * 3, "{took:?}");
    }
    holder.release().await.unwrap();
    let guard = site.locks().lock(&*door).try_acquire().await.unwrap();
    guard.expect("it is free").release().await.unwrap();
}

pub async fn who_waits_for_ever_gets_it_in_the_end(site: Site) {
    let door = site.key("door");
    let holder = site.other().lock(&*door).acquire().await.unwrap();
    let waiter = tokio::spawn(site.locks().lock(&*door).wait(Duration::MAX).acquire());
    tokio::time::sleep(millis(50)).await;
    assert!(!waiter.is_finished());
    holder.release().await.unwrap();
    let guard = within(NOISE * 2, waiter).await.unwrap().unwrap();
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

pub async fn waiters_of_a_process_come_in_order(site: Site) {
    let door = site.key("door");
    // Another process would be let in between.
    let locks = site.another().await;
    let holder = locks.lock(&*door).acquire().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = JoinSet::new();
    for n in 0..20 {
        let mut acquire = Box::pin(locks.lock(&*door).wait(millis(30_000)).acquire());
        // Now it stands in line.
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
    within(millis(20_000), waiters.join_all()).await;
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    locks.shutdown().await;
}

/// Of three waiters one gives up; the others get the lock, soon.
pub async fn any_waiter_may_give_up(site: Site) {
    for which in 0..3 {
        let door = site.key(&format!("door:{which}"));
        let holder = site.locks().lock(&*door).acquire().await.unwrap();
        let mut waiters = Vec::new();
        for _ in 0..3 {
            let lock = site.locks().lock(&*door).wait(millis(20_000));
            let mut acquire = Box::pin(lock.acquire());
            assert!(begin(&mut acquire).is_pending());
            waiters.push(tokio::spawn(async move { acquire.await?.release().await }));
        }
        waiters.remove(which).abort();
        holder.release().await.unwrap();
        for waiter in waiters {
            within(NOISE, waiter).await.unwrap().unwrap();
        }
        site.until_free(&door, NOISE).await;
    }
}

pub async fn keys_do_not_wait_for_one_another(site: Site) {
    let (door, gate) = (site.key("door"), site.key("gate"));
    let holder = site.locks().lock(&*door).acquire().await.unwrap();
    let mut waiter = Box::pin(site.locks().lock(&*door).wait(millis(20_000)).acquire());
    assert!(begin(&mut waiter).is_pending());
    let other = within(NOISE, site.locks().lock(&*gate).acquire()).await;
    other.unwrap().release().await.unwrap();
    holder.release().await.unwrap();
    let guard = within(NOISE, waiter).await.unwrap();
    guard.release().await.unwrap();
}

pub async fn one_holder_at_a_time(site: Site) {
    let door = site.key("door");
    let managers = site.both();
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for n in 0..40 {
        let lock = managers[n % 2].lock(&*door).wait(millis(40_000));
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
    let others = within(millis(40_000), tasks.join_all()).await;
    assert_eq!(others.into_iter().max(), Some(0));
}

/// A guard whose lease has ended isn't the holder any more, however long it's kept.
pub async fn an_expired_guard_is_in_nobodys_way(site: Site) {
    let door = site.key("door");
    for locks in site.both() {
        for waits in [false, true] {
            let lock = site.locks().lock(&*door).ttl(millis(300)).renew(false);
            let expired = lock.acquire().await.unwrap();
            assert!(within(NOISE * 2, expired.lost()).await.is_lost());
            // On the server it ends a little later.
            let soon = millis(300) + NOISE * 2;
            let next = match waits {
                true => within(soon, locks.lock(&*door).acquire()).await.unwrap(),
                false => {
                    site.until_free(&door, soon).await;
                    let next = locks.lock(&*door).try_acquire().await.unwrap();
                    next.expect("the lock is free")
                }
            };
            drop(expired);
            tokio::time::sleep(millis(20)).await;
            assert!(next.is_valid());
            assert!(
                site.is_held(&door).await,
                "dropped late, it takes nothing from the next one"
            );
            next.release().await.unwrap();
        }
    }
}
