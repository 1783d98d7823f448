//! A canceled waiter neither keeps the lock nor leaves a queue entry.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Poll;
use std::time::{Duration, Instant};

use lock_runtime::{LockError, LockManager};
use tokio::task::JoinSet;

use super::dead_waiters::GRANT;
use super::fixture::{LONG, Waiter, managers, waits};
use super::lua::tombstone;
use lock_test_support::manager::{connected, use_once};
use lock_test_support::proxy::Proxy;
use lock_test_support::rng::Rng;
use lock_test_support::server::Server;
use lock_test_support::time::{NOISE, Timed, eventually, millis, soon};

const CANCELS: u64 = 10_000;
const WAITERS: usize = 200;

/// Counts over all tasks.
struct Log {
    start: Instant,
    cancelled: AtomicU64,
    had: AtomicU64,
    /// Time of the last acquisition in microseconds, and the longest gap between two acquisitions.
    last: AtomicU64,
    gap: AtomicU64,
}

impl Log {
    fn has_it(&self) {
        let now = self.start.elapsed().as_micros() as u64;
        let before = self.last.swap(now, Relaxed);
        self.gap.fetch_max(now.saturating_sub(before), Relaxed);
        self.had.fetch_add(1, Relaxed);
    }
}

/// Polls the future `polls` times, then drops it.
async fn polled<F: Future>(mut polls: u64, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| {
        polls -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polls == 0 => Poll::Ready(None),
            Poll::Pending => {
                // Spurious polls.
                if polls.is_multiple_of(2) {
                    context.waker().wake_by_ref();
                }
                Poll::Pending
            }
        }
    })
    .await
}

/// Starts to acquire the lock and gives up in one of several ways, unless the lock arrives first.
async fn try_and_give_up(locks: &LockManager, log: &Log, rng: &mut Rng) {
    let patience = Duration::from_micros(rng.below(6000));
    let lock = locks.lock("door").wait(LONG);
    let guard = match rng.below(4) {
        0 => polled(1 + rng.below(4), lock.acquire()).await,
        1 => Some(lock.wait(patience).acquire().await),
        _ => tokio::time::timeout(patience, lock.acquire()).await.ok(),
    };
    match guard {
        Some(Ok(guard)) => {
            log.has_it();
            match rng.below(3) {
                0 => guard.release().await.unwrap(),
                1 => drop(guard),
                // A canceled release.
                _ => drop(polled(1, guard.release()).await),
            }
        }
        None => drop(log.cancelled.fetch_add(1, Relaxed)),
        // The timeout may be too short for the server to reply at all.
        Some(Err(error)) => {
            assert!(error.is_busy() || error.is_unavailable(), "{error}");
            log.cancelled.fetch_add(1, Relaxed);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_canceled_waiters_lose_no_grant() {
    let _timed = Timed::start();
    let server = Server::start();
    let managers = managers(&server.url(), 4).await;
    let log = Arc::new(Log {
        start: Instant::now(),
        cancelled: AtomicU64::new(0),
        had: AtomicU64::new(0),
        last: AtomicU64::new(0),
        gap: AtomicU64::new(0),
    });
    let mut rng = Rng::random();
    let mut waiters = JoinSet::new();
    for n in 0..WAITERS {
        let (locks, log, mut rng) = (managers[n % 4].clone(), log.clone(), rng.split());
        waiters.spawn(async move {
            while log.cancelled.load(Relaxed) < CANCELS {
                try_and_give_up(&locks, &log, &mut rng).await;
            }
            let guard = locks.lock("door").wait(LONG).acquire().await.unwrap();
            log.has_it();
            guard.release().await.unwrap();
        });
    }
    soon(waiters.join_all()).await;
    let had = log.had.load(Relaxed);
    let gap = Duration::from_micros(log.gap.load(Relaxed));
    println!("acquired {had} times, {CANCELS} canceled; at most {gap:?} without a holder");
    assert!(had > WAITERS as u64 + 100, "acquired {had} times");
    assert!(
        gap + NOISE <= GRANT,
        "no holder for {gap:?}: a grant was lost"
    );
    server.until_waiting("door", 0);
    server.until_gone("lock:door");
}

/// The grant arrives at the moment the waiter is canceled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grant_for_canceled_waiter_is_released() {
    let server = Server::start();
    let managers = managers(&server.url(), 3).await;
    let mut rng = Rng::random();
    for _ in 0..400 {
        let holder = managers[0].lock("door").acquire().await.unwrap();
        let leaves = waits(&managers[1], "door");
        server.until_waiting("door", 1);
        let pause = Duration::from_micros(rng.below(500));
        let release = tokio::spawn(holder.release());
        // Spins, since a timer is far less precise.
        let start = Instant::now();
        while start.elapsed() < pause {
            std::hint::spin_loop();
        }
        leaves.abort();
        drop(leaves.await);
        release.await.unwrap().unwrap();
        let next = managers[2].lock("door").wait(LONG).acquire();
        let next = soon(next).await.unwrap();
        next.release().await.unwrap();
    }
    assert_eq!(server.waiting("door"), 0);
}

/// The server has granted the lock, and its reply is in flight when the waiter is canceled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_acquired_by_canceled_waiter_is_released() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let locks = connected(proxy.url()).await;
    server.query::<()>("SET lock:door other-client");
    let waiter = waits(&locks, "door");
    server.until_waiting("door", 1);
    proxy.delay(millis(40));
    server.query::<()>("DEL lock:door");
    let granted = || server.exists("lock:door");
    eventually("the waiter polls and acquires the lock", granted);
    waiter.abort();
    // The reply may have come first.
    drop(waiter.await);
    server.until_gone("lock:door");
    assert_eq!(server.waiting("door"), 0);
}

/// The server grants a claim that the process has replaced by another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grant_for_replaced_claim_is_released() {
    let server = Server::start();
    let managers = managers(&server.url(), 2).await;
    let holder = managers[0].lock("door").acquire().await.unwrap();
    let waiter = waits(&managers[1], "door");
    server.until_waiting("door", 1);
    let claims: Vec<String> = server.query("ZRANGE lock:::queue:door 0 0");
    // The claim looks canceled, so its requests are void, and the process queues again with a new claim.
    server.query::<()>(&format!("SET {} x PX 60000", tombstone(&claims[0])));
    server.until_waiting("door", 2);
    holder.release().await.unwrap();
    let guard = soon(waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
    assert_eq!(server.waiting("door"), 0);
}

/// Asserts that the queue is empty, that a release frees the lock, and that the next waiter of the same
/// process is first in the queue.
async fn nothing_is_left(server: &Server, locks: &LockManager, holder: &LockManager) {
    server.until_waiting("door", 0);
    assert!(!server.exists("lock:::waiters:door"));
    let had = server.calls(&["publish"]);
    let guard = holder.lock("door").try_acquire().await.unwrap();
    guard.expect("the lock is free").release().await.unwrap();
    use_once(locks, "door").await;
    assert_eq!(server.calls(&["publish"]), had);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_waiter_leaves_no_queue_entry() {
    let server = Server::start();
    let managers = managers(&server.url(), 2).await;
    let holder = managers[0].lock("door").acquire().await.unwrap();
    let waiters: Vec<_> = (0..5).map(|_| waits(&managers[1], "door")).collect();
    server.until_waiting("door", 1);
    waiters.iter().for_each(|waiter| waiter.abort());
    server.until_waiting("door", 0);
    holder.release().await.unwrap();
    nothing_is_left(&server, &managers[1], &managers[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timed_out_waiter_leaves_no_queue_entry() {
    let server = Server::start();
    let managers = managers(&server.url(), 2).await;
    let holder = managers[0].lock("door").acquire().await.unwrap();
    let lock = managers[1].lock("door").wait(millis(2000));
    let error = soon(lock.acquire()).await.unwrap_err();
    assert!(error.is_busy(), "{error}");
    assert!(server.calls(&["zadd"]) > 0, "it was in the queue");
    server.until_waiting("door", 0);
    holder.release().await.unwrap();
    nothing_is_left(&server, &managers[1], &managers[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiter_of_dropped_runtime_leaves_no_queue_entry() {
    let server = Server::start();
    let managers = managers(&server.url(), 2).await;
    let holder = managers[0].lock("door").acquire().await.unwrap();
    let theirs = tokio::runtime::Runtime::new().unwrap();
    for _ in 0..3 {
        theirs.spawn(managers[1].lock("door").wait(LONG).acquire());
    }
    server.until_waiting("door", 1);
    theirs.shutdown_background();
    server.until_waiting("door", 0);
    holder.release().await.unwrap();
    nothing_is_left(&server, &managers[1], &managers[0]).await;
}

/// The waiter's runtime is idle while the lock is granted, so the waiter cannot take the lock before the
/// runtime is dropped.
#[test]
fn lock_granted_to_dropped_runtime_is_released() {
    let server = Server::start();
    lock_test_support::worker::block_on(async {
        let managers = managers(&server.url(), 2).await;
        let holder = managers[0].lock("door").acquire().await.unwrap();
        let theirs = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let waiter = theirs.spawn(managers[1].lock("door").wait(LONG).acquire());
        let (queued, seen) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || {
            theirs.block_on(seen).unwrap();
            theirs
        });
        server.until_waiting("door", 1);
        queued.send(()).unwrap();
        let theirs = thread.join().unwrap();
        holder.release().await.unwrap();
        // The lock is granted, and the waiter is never polled again.
        server.until_waiting("door", 0);
        tokio::time::sleep(millis(50)).await;
        std::thread::spawn(move || drop(theirs)).join().unwrap();
        drop(waiter);
        let next = managers[0].lock("door").wait(LONG).acquire();
        soon(next).await.unwrap().release().await.unwrap();
    });
}

async fn fail(waiters: &mut [Waiter]) {
    for waiter in waiters {
        let error = soon(waiter).await.unwrap().unwrap_err();
        assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_fails_waiters_and_removes_queue_entries() {
    let server = Server::start();
    let managers = managers(&server.url(), 3).await;
    let holder = managers[0].lock("door").acquire().await.unwrap();
    let mut waiting = Vec::new();
    for (before, locks) in managers.iter().enumerate() {
        let waiters: Vec<_> = (0..3).map(|_| waits(locks, "door")).collect();
        server.until_waiting("door", before + 1);
        waiting.push(waiters);
    }
    // One in the middle, then the last one.
    for (which, left) in [(1, 2), (2, 1)] {
        soon(managers[which].shutdown()).await;
        fail(&mut waiting[which]).await;
        assert_eq!(server.waiting("door"), left, "when shutdown has returned");
    }
    // The manager that also holds the lock waits for its guard, but not with its waiters.
    let locks = managers[0].clone();
    let shutdown = tokio::spawn(async move { locks.shutdown().await });
    fail(&mut waiting[0]).await;
    server.until_waiting("door", 0);
    assert!(holder.is_valid());
    holder.release().await.unwrap();
    soon(shutdown).await.unwrap();
    eventually("no key is left", || server.key_count() == 0);
}
