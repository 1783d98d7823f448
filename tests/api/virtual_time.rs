//! `testing::Locks` under tokio's paused clock: leases, waits and renewals take no real time.

use std::future::pending;
use std::time::Duration;

use lock_runtime::testing::{Fault, Locks};
use lock_runtime::{LockError, LockManager, LostCause};
use lock_test_support::time::PATIENCE;
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// Fails a test that waits in real time: each would take half a minute at least, which no starved machine
/// takes.
struct Milliseconds(std::time::Instant);

impl Milliseconds {
    fn begin() -> Self {
        Self(std::time::Instant::now())
    }
}

impl Drop for Milliseconds {
    fn drop(&mut self) {
        let took = self.0.elapsed();
        assert!(std::thread::panicking() || took < PATIENCE, "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn wait_ends_after_its_virtual_time() {
    let _real = Milliseconds::begin();
    let locks = Locks::new();
    for holder in [
        locks.lock("row").acquire().await.unwrap(),
        locks.hold_elsewhere("row of another process").await,
    ] {
        let start = Instant::now();
        let wait = locks.lock(holder.key()).wait(60 * SECOND);
        assert!(wait.acquire().await.unwrap_err().is_busy());
        assert_eq!(start.elapsed().as_secs(), 60);
    }
}

#[tokio::test(start_paused = true)]
async fn unrenewed_lease_cancels_its_body() {
    let _real = Milliseconds::begin();
    let locks = Locks::new();
    let start = Instant::now();
    let lock = locks.lock("row").ttl(30 * SECOND).renew(false);
    let lost = lock.run(async |_| pending::<()>().await).await;
    let cause = match lost.unwrap_err() {
        LockError::Lost { cause, .. } => cause,
        other => panic!("{other}"),
    };
    assert_eq!(cause, LostCause::NotRenewed);
    let took = start.elapsed();
    assert!(29 * SECOND < took && took < 30 * SECOND, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn body_of_a_day_is_renewed() {
    let locks = Locks::new();
    let lock = locks.lock("row").ttl(30 * SECOND);
    let day = lock.run(async |guard| {
        sleep(DAY).await;
        assert!(guard.is_valid());
        assert!(locks.lock("row").try_acquire().await.unwrap().is_none());
    });
    day.await.unwrap();
    let start = Instant::now();
    let lock = locks.lock("row").max_hold(600 * SECOND);
    let lost = lock.run(async |_| sleep(DAY).await).await.unwrap_err();
    assert!(lost.is_lost());
    assert_eq!(start.elapsed().as_secs(), 600);
}

#[tokio::test(start_paused = true)]
async fn crashed_holder_is_replaced_after_its_ttl() {
    let _real = Milliseconds::begin();
    let (crashes, lives) = (Locks::with("memory://crash"), Locks::with("memory://crash"));
    let start = Instant::now();
    let lock = crashes.lock("row").ttl(30 * SECOND).renew(false);
    std::mem::forget(lock.acquire().await.unwrap());
    let lock = lives.lock("row").wait(100 * SECOND);
    let _guard = lock.acquire().await.unwrap();
    let took = start.elapsed();
    let limit = 30 * SECOND + Duration::from_millis(100);
    assert!(30 * SECOND <= took && took < limit, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn waiter_enters_at_the_instant_of_the_release() {
    let _real = Milliseconds::begin();
    let locks = Locks::new();
    for n in 0..100 {
        let key = format!("row:{n}");
        let holder = match n % 2 {
            0 => locks.lock(&key).acquire().await.unwrap(),
            _ => locks.hold_elsewhere(&key).await,
        };
        let start = Instant::now();
        let waiter = tokio::spawn(timeout(5 * SECOND, locks.lock(&key).acquire()));
        sleep(SECOND).await;
        holder.release().await.unwrap();
        let guard = waiter.await.unwrap().expect("in time").unwrap();
        assert_eq!(start.elapsed(), SECOND);
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn kept_lock_is_free_after_its_min_hold() {
    let _real = Milliseconds::begin();
    let locks = Locks::new();
    let start = Instant::now();
    let lock = locks.lock("row").min_hold(3600 * SECOND);
    lock.ttl(7200 * SECOND).run(async |_| ()).await.unwrap();
    let next = locks.lock("row").wait(DAY).acquire();
    let _guard = next.await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 3600);
}

#[tokio::test(start_paused = true)]
async fn silent_server_ends_a_lease_in_virtual_time() {
    let _real = Milliseconds::begin();
    let locks = Locks::new();
    let guard = locks.lock("row").ttl(30 * SECOND).acquire().await.unwrap();
    sleep(60 * SECOND).await;
    assert!(guard.is_valid());
    locks.fail_with(Fault::Silent);
    let start = Instant::now();
    let LockError::Lost { cause, .. } = guard.lost().await else {
        panic!("it is a loss");
    };
    assert_eq!(cause, LostCause::Expired);
    assert!(start.elapsed() < 30 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn shutdown_cancels_a_body_after_its_grace() {
    let _real = Milliseconds::begin();
    let locks = Locks::new();
    let body = tokio::spawn(locks.lock("row").run(async |_| pending::<()>().await));
    locks.wait_until_held("row").await;
    let start = Instant::now();
    locks.shutdown_within(3600 * SECOND).await;
    assert_eq!(start.elapsed().as_secs(), 3600);
    assert!(body.await.unwrap().unwrap_err().is_lost());
}

/// At the same moment as the other tests of this file, and with its own clock paused, too.
#[tokio::test(start_paused = true)]
async fn other_managers_keep_real_time() {
    let in_virtual_time = std::thread::spawn(body_of_an_hour);
    let locks = LockManager::connect("memory://").await.unwrap();
    let guard = locks.lock("row").renew(false).acquire().await.unwrap();
    sleep(3600 * SECOND).await;
    assert!(guard.is_valid());
    let real = std::time::Instant::now();
    let wait = Duration::from_millis(50);
    let busy = locks.lock("row").wait(wait).acquire().await.unwrap_err();
    assert!(busy.is_busy() && real.elapsed() >= wait, "{busy}");
    in_virtual_time.join().unwrap();
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn body_of_an_hour() {
    let locks = Locks::new();
    let hour = locks.lock("row").run(async |_| sleep(3600 * SECOND).await);
    hour.await.unwrap();
}

/// Without a paused clock, and on several threads, a lease takes its time.
#[tokio::test(flavor = "multi_thread")]
async fn clock_that_is_not_paused_is_real() {
    let locks = Locks::new();
    let (real, wait) = (std::time::Instant::now(), Duration::from_millis(50));
    let guard = tokio::spawn(locks.lock("row").acquire());
    let guard = guard.await.unwrap().unwrap();
    let busy = locks.lock("row").wait(wait).acquire().await.unwrap_err();
    assert!(busy.is_busy() && real.elapsed() >= wait, "{busy}");
    assert!(guard.is_valid());
}

/// A guard may end on a thread without a runtime, whose clock is far behind.
#[tokio::test(start_paused = true)]
async fn guard_dropped_on_another_thread_hands_its_lock_on() {
    let _real = Milliseconds::begin();
    let locks = Locks::new();
    let guard = locks.lock("row").acquire().await.unwrap();
    sleep(60 * 60 * SECOND).await;
    let waiter = tokio::spawn(locks.lock("row").wait(DAY).acquire());
    let elsewhere = locks.hold_elsewhere("other").await;
    let other = tokio::spawn(locks.lock("other").acquire());
    locks.wait_until_waiting("row", 1).await;
    locks.wait_until_waiting("other", 1).await;
    let dropped = std::thread::spawn(move || drop((guard, elsewhere)));
    dropped.join().unwrap();
    for next in [waiter, other] {
        let guard = next.await.unwrap().unwrap();
        assert!(guard.remaining() > SECOND);
    }
}
