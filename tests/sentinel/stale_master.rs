//! A master that was paused and resumes does not know its successor. Clients ignore it.

use std::time::Duration;

use lock_runtime::{Config, LockError, LockGuard, LockManager};

use lock_test_support::manager::connected;
use lock_test_support::sentinel::Sentinels;
use lock_test_support::time::millis;

const LONG: Duration = Duration::from_secs(30);

async fn connect(all: &Sentinels) -> LockManager {
    connected(all.url()).await
}

/// Makes enough requests for the runtime to get its own connection.
async fn settle(locks: &LockManager) {
    for n in 0..50 {
        let guard = locks.lock(format!("settle:{n}")).acquire().await.unwrap();
        guard.release().await.unwrap();
    }
}

/// Asserts that the lock is on the new master.
#[track_caller]
fn is_from(all: &Sentinels, master: usize, guard: &LockGuard) {
    let key = format!("lock:{}", guard.key());
    assert!(guard.is_valid());
    assert!(
        all.server(master).exists(&key),
        "`{key}` is not on the new master"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_master_grants_nothing_after_failover() {
    let mut all = Sentinels::start();
    let idle = connect(&all).await;
    let settled = connect(&all).await;
    let patient = Config::new(all.url()).command_timeout(LONG);
    let patient = connected(patient).await;
    settle(&settled).await;
    let held = settled.lock("held").ttl(LONG).acquire().await.unwrap();
    all.until_replicated(2);

    let old = all.pause_master();
    // The old master replies only after it resumes.
    let asked = tokio::spawn(patient.lock("asked").wait(LONG).acquire());
    let new = all.until_failed_over(old);
    // A client that missed the message has polled a Sentinel by then.
    tokio::time::sleep(millis(1500)).await;
    all.resume(old);
    let tries = |locks: LockManager| async move {
        let mut guards = Vec::new();
        for n in 0..20 {
            // The first request discovers for all others that a new connection is needed.
            guards.push(
                locks
                    .lock(format!("row:{n}"))
                    .wait(millis(2000))
                    .acquire()
                    .await?,
            );
        }
        Ok::<_, LockError>(guards)
    };
    let (first, second) = (tries(settled.clone()).await, tries(idle).await);
    let guards = first.unwrap();
    // Only one of the managers acquires each lock.
    assert!(second.unwrap_err().is_busy());
    guards.iter().for_each(|guard| is_from(&all, new, guard));
    let asked = asked.await.unwrap().unwrap();
    is_from(&all, new, &asked);
    is_from(&all, new, &held);
    all.until_settled();
    for guard in guards.into_iter().chain([asked, held]) {
        guard.release().await.unwrap();
    }
}
