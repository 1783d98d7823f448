//! Readers, permits and downgrades, in the names and the data of nodes.

use std::time::Duration;

use lock_test_support::manager::{connected, use_once};
use lock_test_support::time::{eventually, millis, patient, soon};
use lock_test_support::zookeeper::ZooKeeper;

#[tokio::test(flavor = "multi_thread")]
async fn limit_is_part_of_a_nodes_name() {
    let zookeeper = ZooKeeper::start();
    let locks = connected(patient(zookeeper.url()).prefix("shop/lock:")).await;
    for (lock, limit) in [
        (locks.lock("a/b"), "-lock-"),
        (locks.lock("a/b").read(), "-2047-lock-"),
        (locks.lock("a/b").permits(5), "-5-lock-"),
    ] {
        let guard = lock.acquire().await.unwrap();
        let claims = zookeeper.claims();
        assert_eq!(claims.len(), 1);
        assert!(claims[0].starts_with("/shop/lock/a%2Fb/_c_"), "{claims:?}");
        assert!(claims[0].contains(limit), "{claims:?}");
        guard.release().await.unwrap();
    }
    locks.shutdown().await;
}

/// The holder keeps its place, so a writer that waits is not passed by readers that come later.
#[tokio::test(flavor = "multi_thread")]
async fn downgraded_holder_keeps_its_place() {
    let zookeeper = ZooKeeper::start();
    let locks = connected(patient(zookeeper.url())).await;
    let other = connected(patient(zookeeper.url())).await;
    let writer = locks.lock("door").acquire().await.unwrap();
    let before = zookeeper.claims();
    let reader = tokio::spawn(other.lock("door").read().acquire());
    eventually("the reader waits", || zookeeper.claims().len() == 2);
    let next = tokio::spawn(locks.lock("door").acquire());
    eventually("the writer waits", || zookeeper.claims().len() == 3);
    let guard = writer.downgrade().await.unwrap();
    let reader = soon(reader).await.unwrap().unwrap();
    assert!(zookeeper.claims().contains(&before[0]));
    assert!(
        other
            .lock("door")
            .read()
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    guard.release().await.unwrap();
    tokio::time::sleep(millis(100)).await;
    assert!(!next.is_finished());
    reader.release().await.unwrap();
    soon(next).await.unwrap().unwrap().release().await.unwrap();
    locks.shutdown().await;
    other.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_of_unused_locks_are_removed() {
    let zookeeper = ZooKeeper::start();
    let locks = connected(patient(zookeeper.url())).await;
    for n in 0..10 {
        let guard = locks.lock(format!("row:{n}")).acquire().await.unwrap();
        guard.release().await.unwrap();
    }
    eventually("they are removed", || {
        let all = zookeeper.client().all_below("/");
        !all.iter().any(|path| path.contains("/row:"))
    });
    use_once(&locks, "row:3").await;
    locks.shutdown().await;
}

/// Whichever of the two requests is carried out first, no claim is left.
#[tokio::test(flavor = "multi_thread")]
async fn downgrade_beside_a_release_leaves_no_claim() {
    let zookeeper = ZooKeeper::start();
    let locks = connected(patient(zookeeper.url())).await;
    for round in 0..30 {
        let guard = locks.lock("door").acquire().await.unwrap();
        let later = Duration::from_micros(round * 100);
        // Dropping the downgrade releases the lock.
        let downgraded = tokio::time::timeout(later, guard.downgrade()).await;
        drop(downgraded);
        let next = locks.lock("door").acquire();
        let next = soon(next).await.unwrap();
        assert_eq!(zookeeper.claims().len(), 1);
        next.release().await.unwrap();
        assert!(zookeeper.claims().is_empty());
    }
    locks.shutdown().await;
}
