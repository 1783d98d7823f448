//! The place in the line that a try which fails leaves to its caller.

use lock_runtime::Lock;
use tokio::task::JoinSet;

use lock_test_support::manager::connected;
use lock_test_support::time::{PATIENCE, eventually, eventually_within, patient, soon};
use lock_test_support::zookeeper::ZooKeeper;

/// A try that fails creates nothing, and a call that waits waits with the claim that it has created first.
#[tokio::test(flavor = "multi_thread")]
async fn call_creates_no_claim_in_vain() {
    let zookeeper = ZooKeeper::start();
    let locks = connected(patient(zookeeper.url())).await;
    let other = connected(patient(zookeeper.url())).await;
    let kinds: [fn(Lock) -> Lock; 3] = [|lock| lock, |lock| lock.permits(2), Lock::read];
    for (n, kind) in kinds.into_iter().enumerate() {
        let lock = || other.lock(format!("row:{n}"));
        let guard = locks.lock(format!("row:{n}")).acquire().await.unwrap();
        assert!(kind(lock()).try_acquire().await.unwrap().is_none());
        let waiter = tokio::spawn(kind(lock()).acquire());
        eventually("it waits", || zookeeper.claims().len() == 2);
        guard.release().await.unwrap();
        let next = soon(waiter).await.unwrap().unwrap();
        let claims = zookeeper.claims();
        assert!(claims[0].ends_with("-lock-0000000001"), "{claims:?}");
        next.release().await.unwrap();
    }
    locks.shutdown().await;
    other.shutdown().await;
}

/// Of the places of callers that try at once, their process keeps one, as long as one of them waits.
#[tokio::test(flavor = "multi_thread")]
async fn process_leaves_the_places_with_which_nothing_waits() {
    let zookeeper = ZooKeeper::start();
    let locks = connected(patient(zookeeper.url())).await;
    let other = connected(patient(zookeeper.url())).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    let mut calls = JoinSet::new();
    for _ in 0..8 {
        calls.spawn(other.lock("row").max_waiters(4).acquire());
    }
    for _ in 0..4 {
        let refused = soon(calls.join_next()).await.unwrap().unwrap();
        assert!(refused.unwrap_err().is_busy());
    }
    // By itself, a claim with which nothing waits ends after 25 s.
    let one_is_left = || zookeeper.claims().len() == 2;
    eventually_within(PATIENCE / 2, "one place is left", one_is_left);
    calls.abort_all();
    eventually("nothing waits", || zookeeper.claims().len() == 1);
    guard.release().await.unwrap();
    assert!(zookeeper.claims().is_empty());
    locks.shutdown().await;
    other.shutdown().await;
}
