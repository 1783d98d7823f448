//! A call can be dropped at every await point: after one poll, after two, after each more,
//! until it gets to its end. Every time the lock is free at once and stays free.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use lock_runtime::{LockError, LockManager, distributed_lock};
use tokio::task::{JoinSet, yield_now};

use super::site::Site;
use crate::support::time::{NOISE, millis, within};

/// Polls the future whenever it's woken, `polls` times, then drops it: its output, if it had one.
async fn polled<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

type Call = fn(LockManager, String) -> Pin<Box<dyn Future<Output = Result<(), LockError>> + Send>>;

#[distributed_lock(key = "<key>", manager = locks, wait = "20s", guard = lock)]
async fn call(locks: LockManager, key: String) -> Result<(), LockError> {
    yield_now().await;
    lock.fencing_token().await?;
    tokio::time::sleep(millis(1)).await;
    yield_now().await;
    Ok(())
}

async fn guard_by_hand(locks: LockManager, key: String) -> Result<(), LockError> {
    let guard = locks.lock(key).wait(millis(20_000)).acquire().await?;
    yield_now().await;
    guard.release().await
}

/// Drops `call` after each poll in turn; `contended` holds the lock until the call waits.
async fn at_every_await_point(site: Site, contended: bool, call: Call) {
    let locks = site.another().await;
    let mut completed = 0;
    let mut keys = Vec::new();
    while completed < 3 {
        let polls = keys.len() + 1;
        assert!(polls < 500, "the call never gets to its end");
        let key = site.key(&polls.to_string());
        let mut attempt = pin!(polled(polls, call(locks.clone(), key.clone())));
        let output = if contended {
            let holder = site.other().lock(&*key).acquire().await.unwrap();
            let free = async {
                tokio::time::sleep(millis(15)).await;
                holder.release().await.unwrap();
            };
            let (output, ()) = within(NOISE * 6, async { tokio::join!(attempt, free) }).await;
            output
        } else {
            within(NOISE * 6, &mut attempt).await
        };
        if let Some(output) = output {
            output.unwrap();
            completed += 1;
        }
        site.until_free(&key, millis(1500)).await;
        let next = site.other().lock(&*key).wait(NOISE * 2).acquire();
        next.await.unwrap().release().await.unwrap();
        keys.push(key);
    }
    within(NOISE * 2, locks.shutdown()).await;
    for key in keys {
        assert!(!site.is_held(&key).await, "`{key}` came back");
    }
}

pub async fn a_call_at_every_await_point(site: Site) {
    at_every_await_point(site, false, |locks, key| Box::pin(call(locks, key))).await;
}

pub async fn a_waiting_call_at_every_await_point(site: Site) {
    at_every_await_point(site, true, |locks, key| Box::pin(call(locks, key))).await;
}

pub async fn a_guard_at_every_await_point(site: Site) {
    at_every_await_point(site, false, |locks, key| {
        Box::pin(guard_by_hand(locks, key))
    })
    .await;
}

pub async fn a_hundred_calls_dropped_together(site: Site) {
    let locks = site.another().await;
    let mut calls = JoinSet::new();
    for n in 0..100 {
        let key = site.key(&(n % 10).to_string());
        calls.spawn(polled(1 + n % 7, call(locks.clone(), key)));
    }
    for output in within(NOISE * 10, calls.join_all()).await {
        output.map_or(Ok(()), |output| output).unwrap();
    }
    within(NOISE * 2, locks.shutdown()).await;
    for n in 0..10 {
        assert!(!site.is_held(&site.key(&n.to_string())).await);
    }
}

/// The answer is on its way, or about to be, or has just come.
pub async fn an_acquisition_dropped_sooner_or_later(site: Site) {
    for n in 0..150 {
        let key = site.key(&n.to_string());
        let acquisition = tokio::spawn(site.locks().lock(&*key).acquire());
        // What is spawned runs first.
        yield_now().await;
        spin(n * 10);
        acquisition.abort();
        drop(acquisition.await);
        site.until_free(&key, millis(1500)).await;
    }
}

/// Less than any sleep could be.
fn spin(micros: u64) {
    let moment = Instant::now() + Duration::from_micros(micros);
    while Instant::now() < moment {
        std::hint::spin_loop();
    }
}

/// The lock is released to a waiter that goes away in the same moment, a little sooner or later.
pub async fn a_waiter_dropped_while_the_lock_comes(site: Site) {
    for n in 0..100 {
        let key = site.key(&n.to_string());
        let holder = site.other().lock(&*key).acquire().await.unwrap();
        let waiter = tokio::spawn(site.locks().lock(&*key).wait(millis(20_000)).acquire());
        tokio::time::sleep(millis(4)).await;
        let release = tokio::spawn(holder.release());
        // From before the release is sent until after the waiter has been told.
        yield_now().await;
        spin(n * 20);
        waiter.abort();
        drop(waiter.await);
        within(NOISE * 2, release).await.unwrap().unwrap();
        site.until_free(&key, millis(1500)).await;
    }
}
