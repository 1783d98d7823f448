//! A slot under migration.

use std::time::Duration;

use lock_test_support::cluster::Cluster;
use lock_test_support::manager::{connected, until_renewed};
use lock_test_support::time::{eventually, millis, patient, soon};

const LONG: Duration = Duration::from_secs(60);

/// Both nodes hold part of the slot until the test ends the migration.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_work_during_slot_migration() {
    let cluster = Cluster::plan().without_replicas().start();
    let locks = connected(patient(cluster.url())).await;
    let others = connected(patient(cluster.url())).await;
    let slot = cluster.slot("{row}");
    let (from, to) = (cluster.master_of(slot).unwrap(), 2);
    let (from, to) = if from == to { (to, 0) } else { (from, to) };
    let key = |n: usize| format!("{{row}}:{n}");
    let ttl = millis(7500);

    let before = locks.lock(key(0)).ttl(ttl).acquire().await.unwrap();
    let moved = locks.lock(key(1)).ttl(ttl).acquire().await.unwrap();
    let token = moved.fencing_token().await.unwrap();
    let waiting = others.lock(key(0)).wait(LONG);
    let waiting = tokio::spawn(async move { waiting.acquire().await.unwrap() });
    cluster.until_waiting(&key(0), 1);
    cluster.begin_to_move(slot, from, to);
    cluster.move_key(&format!("lock:{}", key(1)), from, to);

    // New locks are acquired on the target node, and exclude as usual.
    let new = soon(locks.lock(key(2)).ttl(ttl).acquire()).await.unwrap();
    for key in [key(0), key(1), key(2)] {
        let taken = soon(others.lock(&key).try_acquire()).await.unwrap();
        assert!(taken.is_none(), "`{key}` is held");
    }
    // All locks are renewed, on whichever node they are.
    until_renewed([&before, &moved, &new]).await;
    // Released locks are free at once, and their waiters acquire them.
    let next = others.lock(key(1)).wait(LONG);
    let next = tokio::spawn(async move { next.acquire().await.unwrap() });
    tokio::time::sleep(millis(100)).await;
    moved.release().await.unwrap();
    let next = soon(next).await.unwrap();
    before.release().await.unwrap();
    let waiting = soon(waiting).await.unwrap();
    new.release().await.unwrap();
    let again = locks.lock(key(2)).try_acquire().await.unwrap();
    again.expect("it is free").release().await.unwrap();

    cluster.end_to_move(slot, from, to);
    eventually("the slot has moved", || cluster.master_of(slot) == Some(to));
    assert!(next.fencing_token().await.unwrap() > token);
    next.release().await.unwrap();
    waiting.release().await.unwrap();
    // Afterwards each manager finds the slot on its new node.
    for locks in [&locks, &others] {
        let guard = locks.lock(key(0)).acquire().await.unwrap();
        guard.release().await.unwrap();
        locks.shutdown().await;
    }
}
