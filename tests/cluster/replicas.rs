//! Locks that replicas must know of: those of the node that keeps the lock.

use std::time::Duration;

use crate::support::cluster::Cluster;
use crate::support::manager::connected;
use crate::support::time::{NOISE, millis, patient, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_acknowledged_by_the_replica_of_its_own_node() {
    let mut cluster = Cluster::start();
    let locks = connected(patient(cluster.url())).await;
    let keys = [0, 1, 2].map(|node| cluster.keys_at(node, 1).remove(0));
    let ttl = millis(2000);
    let lock = |key: &str| locks.lock(key).ttl(ttl).replicas(1).wait(millis(600));
    for key in &keys {
        lock(key).acquire().await.unwrap().release().await.unwrap();
    }
    let held = lock(&keys[0]).acquire().await.unwrap();
    let other = lock(&keys[1]).acquire().await.unwrap();
    let waiter = tokio::spawn(lock(&keys[1]).wait(Duration::from_secs(20)).acquire());
    cluster.node_mut(3).pause();
    within(ttl + NOISE, held.lost()).await;
    assert!(held.release().await.unwrap_err().is_lost());
    let error = lock(&keys[0]).acquire().await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(other.is_valid(), "another node's replica knows");
    other.release().await.unwrap();
    // The process may have listened to the node that is paused: then it finds out by asking.
    let handed = within(millis(3000) + NOISE, waiter).await.unwrap().unwrap();
    handed.release().await.unwrap();
    cluster.node_mut(3).resume();
    let again = lock(&keys[0]).wait(Duration::from_secs(5)).acquire();
    again.await.unwrap().release().await.unwrap();
}
