//! A call can be dropped at every await point: after one poll, after two, after each more,
//! until it gets to its end. Every time the lock is free at once and stays free.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use lock_runtime::{LockError, LockManager, distributed_lock};
use tokio::task::yield_now;

use crate::Site;
use crate::time::{NOISE, millis, within};

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

#[distributed_lock(key = "cancel:<id>", manager = locks, wait = "20s", guard = lock)]
async fn call(locks: &LockManager, id: usize) -> Result<usize, LockError> {
    yield_now().await;
    lock.fencing_token().await?;
    tokio::time::sleep(millis(1)).await;
    yield_now().await;
    Ok(id)
}

async fn guard_by_hand(locks: &LockManager, id: usize) -> Result<usize, LockError> {
    let guard = locks
        .lock(format!("cancel:{id}"))
        .wait(millis(20_000))
        .acquire()
        .await?;
    yield_now().await;
    guard.release().await?;
    Ok(id)
}

/// Drops `call` after each poll in turn; `contended` holds the lock until the call waits.
async fn at_every_await_point<F>(contended: bool, call: F)
where
    F: AsyncFn(&LockManager, usize) -> Result<usize, LockError>,
{
    let site = Site::start().await;
    let other = site.another().await;
    let mut completed = 0;
    let mut polls = 0;
    while completed < 3 {
        polls += 1;
        assert!(polls < 500, "the call never gets to its end");
        let key = format!("cancel:{polls}");
        let mut attempt = pin!(polled(polls, call(site.locks(), polls)));
        let output = if contended {
            let holder = other.lock(&*key).acquire().await.unwrap();
            let free = async {
                tokio::time::sleep(millis(15)).await;
                holder.release().await.unwrap();
            };
            let (output, ()) = within(NOISE * 4, async { tokio::join!(attempt, free) }).await;
            output
        } else {
            within(NOISE * 4, &mut attempt).await
        };
        if let Some(output) = output {
            assert_eq!(output.unwrap(), polls);
            completed += 1;
        }
        site.until_free(&key, millis(1000));
        let next = within(NOISE, other.lock(&*key).wait(NOISE).acquire()).await;
        next.unwrap().release().await.unwrap();
    }
    within(NOISE, site.locks().shutdown()).await;
    for id in 1..=polls {
        assert!(
            !site.is_held(&format!("cancel:{id}")),
            "`cancel:{id}` came back"
        );
    }
}

#[tokio::test]
async fn a_call_at_every_await_point() {
    at_every_await_point(false, call).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_at_every_await_point_with_several_threads() {
    at_every_await_point(false, call).await;
}

#[tokio::test]
async fn a_waiting_call_at_every_await_point() {
    at_every_await_point(true, call).await;
}

#[tokio::test]
async fn a_guard_at_every_await_point() {
    at_every_await_point(false, guard_by_hand).await;
}

#[tokio::test]
async fn a_hundred_calls_dropped_together() {
    let site = Site::start().await;
    let calls = (0..100).map(|id| {
        let locks = site.locks().clone();
        tokio::spawn(async move { polled(1 + id % 7, call(&locks, id % 10)).await })
    });
    for call in calls.collect::<Vec<_>>() {
        if let Some(output) = within(NOISE * 4, call).await.unwrap() {
            output.unwrap();
        }
    }
    within(NOISE, site.locks().shutdown()).await;
    for id in 0..10 {
        assert!(!site.is_held(&format!("cancel:{id}")));
    }
}

/// The lock is released to a waiter that goes away in the same moment, a little sooner or later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_dropped_while_the_lock_comes() {
    let site = Site::start().await;
    let other = site.another().await;
    for n in 0..150 {
        let key = format!("cancel:{n}");
        let holder = other.lock(&*key).acquire().await.unwrap();
        let waiter = site.locks().lock(&*key).wait(millis(20_000));
        let waiter = tokio::spawn(async move { waiter.acquire().await.map(drop) });
        tokio::time::sleep(millis(4)).await;
        let release = tokio::spawn(holder.release());
        // From before the release is sent until after the waiter has been told.
        let moment = std::time::Instant::now() + std::time::Duration::from_micros(n * 15);
        while std::time::Instant::now() < moment {
            std::hint::spin_loop();
        }
        waiter.abort();
        let _ = waiter.await;
        within(NOISE, release).await.unwrap().unwrap();
        site.until_free(&key, millis(1000));
    }
}
