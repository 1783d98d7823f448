//! Locks that replicas must acknowledge: those of the node that stores the lock.

use lock_test_support::cluster::Cluster;
use lock_test_support::manager::connected;
use lock_test_support::time::{PATIENCE, millis, patient, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_is_acknowledged_by_replica_of_its_own_node() {
    let mut cluster = Cluster::start();
    let locks = connected(patient(cluster.url())).await;
    let keys = [0, 1, 2].map(|node| cluster.keys_at(node, 1).remove(0));
    let lock = |key: &str| locks.lock(key).replicas(1);
    for key in &keys {
        lock(key).acquire().await.unwrap().release().await.unwrap();
    }
    let held = lock(&keys[0]).ttl(millis(4000)).acquire().await.unwrap();
    let other = lock(&keys[1]).ttl(millis(4000)).acquire().await.unwrap();
    let waiter = tokio::spawn(lock(&keys[1]).wait(2 * PATIENCE).acquire());
    cluster.node_mut(3).pause();
    soon(held.lost()).await;
    assert!(held.release().await.unwrap_err().is_lost());
    let error = lock(&keys[0])
        .wait(millis(600))
        .acquire()
        .await
        .unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(
        other.is_valid(),
        "the replica of the other node acknowledges"
    );
    other.release().await.unwrap();
    // The process may have been subscribed to the paused node; then it learns of the grant by polling, and of
    // a second one if the first has ended by then.
    let handed = soon(waiter).await.unwrap().unwrap();
    handed.release().await.unwrap();
    cluster.node_mut(3).resume();
    let again = lock(&keys[0]).acquire();
    again.await.unwrap().release().await.unwrap();
}
