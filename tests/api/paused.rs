//! The embedded engine in a test that pauses tokio's clock, as the README describes it.
//!
//! A paused clock jumps to the next timer whenever all tasks of the runtime wait.

use std::time::{Duration, Instant};

use lock_runtime::{Config, LockManager};
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn free_lock_is_acquired_before_any_timer_fires() {
    let locks = LockManager::connect("memory://").await.unwrap();
    for n in 0..100 {
        let lock = locks.lock(format!("row:{n}"));
        let guard = timeout(Duration::ZERO, lock.acquire()).await.unwrap();
        let release = timeout(Duration::ZERO, guard.unwrap().release());
        release.await.unwrap().unwrap();
    }
}

/// If another thread served the waiter, the timeout would fire first.
#[tokio::test(start_paused = true)]
async fn waiter_acquires_lock_at_instant_of_release() {
    let config = Config::new("memory://").local_handoff(1, Duration::ZERO);
    let locks = LockManager::connect(config).await.unwrap();
    for n in 0..100 {
        let key = format!("row:{n}");
        let holder = locks.lock(key.as_str()).acquire().await.unwrap();
        let start = tokio::time::Instant::now();
        let waiter = tokio::spawn(timeout(5 * SECOND, locks.lock(key).acquire()));
        sleep(SECOND).await;
        drop(holder);
        let guard = waiter.await.unwrap().expect("in time").unwrap();
        assert_eq!(start.elapsed(), SECOND);
        guard.release().await.unwrap();
    }
}

/// Leases use the machine's clock only.
#[tokio::test(start_paused = true)]
async fn lease_runs_in_real_time() {
    let locks = LockManager::connect("memory://").await.unwrap();
    let guard = locks.lock("row").renew(false).acquire().await.unwrap();
    sleep(3600 * SECOND).await;
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn wait_runs_in_real_time() {
    let locks = LockManager::connect("memory://").await.unwrap();
    let _holder = locks.lock("row").acquire().await.unwrap();
    let (start, wait) = (Instant::now(), Duration::from_millis(50));
    let busy = locks.lock("row").wait(wait).acquire().await.unwrap_err();
    assert!(busy.is_busy() && start.elapsed() >= wait, "{busy}");
}
