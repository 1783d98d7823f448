//! A call can be dropped at every await point: after each number of polls until it ends. Each time the lock
//! is free at once and stays free.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use lock_runtime::{LockError, LockManager, distributed_lock};
use tokio::task::{JoinSet, yield_now};

use super::fixture::Fixture;
use lock_test_support::time::{millis, soon};

/// Polls the future whenever it is woken, at most `polls` times, then drops it. Returns its output, if any.
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

#[distributed_lock(key = "<key>", manager = locks, guard = lock)]
async fn call(locks: LockManager, key: String) -> Result<(), LockError> {
    yield_now().await;
    lock.fencing_token().await?;
    tokio::time::sleep(millis(1)).await;
    yield_now().await;
    Ok(())
}

async fn guard_by_hand(locks: LockManager, key: String) -> Result<(), LockError> {
    let guard = locks.lock(key).acquire().await?;
    yield_now().await;
    guard.release().await
}

/// Drops `call` after each number of polls; if `contended`, another client holds the lock while the call
/// waits.
async fn at_every_await_point(fixture: Fixture, contended: bool, call: Call) {
    let locks = fixture.another().await;
    let mut completed = 0;
    let mut keys = Vec::new();
    while completed < 3 {
        let polls = keys.len() + 1;
        assert!(polls < 500, "the call never ends");
        let key = fixture.key(&polls.to_string());
        let mut attempt = pin!(polled(polls, call(locks.clone(), key.clone())));
        let output = if contended {
            let holder = fixture.other().lock(&*key).acquire().await.unwrap();
            let free = async {
                tokio::time::sleep(millis(15)).await;
                holder.release().await.unwrap();
            };
            let (output, ()) = soon(async { tokio::join!(attempt, free) }).await;
            output
        } else {
            soon(&mut attempt).await
        };
        if let Some(output) = output {
            output.unwrap();
            completed += 1;
        }
        fixture.until_free(&key).await;
        let next = fixture.other().lock(&*key).acquire();
        next.await.unwrap().release().await.unwrap();
        keys.push(key);
    }
    soon(locks.shutdown()).await;
    for key in keys {
        assert!(!fixture.is_held(&key).await, "`{key}` is held again");
    }
}

pub async fn call_dropped_at_any_await_point_frees_lock(fixture: Fixture) {
    at_every_await_point(fixture, false, |locks, key| Box::pin(call(locks, key))).await;
}

pub async fn waiting_call_dropped_at_any_await_point_frees_lock(fixture: Fixture) {
    at_every_await_point(fixture, true, |locks, key| Box::pin(call(locks, key))).await;
}

pub async fn guard_dropped_at_any_await_point_frees_lock(fixture: Fixture) {
    at_every_await_point(fixture, false, |locks, key| {
        Box::pin(guard_by_hand(locks, key))
    })
    .await;
}

pub async fn hundred_dropped_calls_free_their_locks(fixture: Fixture) {
    let locks = fixture.another().await;
    let mut calls = JoinSet::new();
    for n in 0..100 {
        let key = fixture.key(&(n % 10).to_string());
        calls.spawn(polled(1 + n % 7, call(locks.clone(), key)));
    }
    for output in soon(calls.join_all()).await {
        output.map_or(Ok(()), |output| output).unwrap();
    }
    soon(locks.shutdown()).await;
    for n in 0..10 {
        fixture.until_free(&fixture.key(&n.to_string())).await;
    }
}

/// The reply is in flight, about to be sent, or has just arrived.
pub async fn acquire_dropped_around_its_reply_frees_lock(fixture: Fixture) {
    for n in 0..150 {
        let key = fixture.key(&n.to_string());
        let acquisition = tokio::spawn(fixture.locks().lock(&*key).acquire());
        // Lets the spawned task run first.
        yield_now().await;
        spin(n * 10);
        acquisition.abort();
        drop(acquisition.await);
        fixture.until_free(&key).await;
    }
}

/// Waits for less time than a sleep can.
fn spin(micros: u64) {
    let moment = Instant::now() + Duration::from_micros(micros);
    while Instant::now() < moment {
        std::hint::spin_loop();
    }
}

/// The lock is released at about the moment its waiter is dropped.
pub async fn waiter_dropped_around_its_grant_frees_lock(fixture: Fixture) {
    for n in 0..100 {
        let key = fixture.key(&n.to_string());
        let holder = fixture.other().lock(&*key).acquire().await.unwrap();
        let waiter = tokio::spawn(fixture.locks().lock(&*key).acquire());
        tokio::time::sleep(millis(4)).await;
        let release = tokio::spawn(holder.release());
        // From before the release is sent until after the waiter is notified.
        yield_now().await;
        spin(n * 20);
        waiter.abort();
        drop(waiter.await);
        soon(release).await.unwrap().unwrap();
        fixture.until_free(&key).await;
    }
}
