//! Renewal of many leases over all nodes.

use std::time::{Duration, Instant};

use lock_runtime::{LockGuard, LockManager};
use tokio::task::JoinSet;

use super::keys::hash_slot::slot_of;
use lock_test_support::cluster::Cluster;
use lock_test_support::manager::{connected, silent, until_renewed};
use lock_test_support::time::{millis, patient, soon};

const LONG: Duration = Duration::from_secs(30);

async fn take(
    locks: &LockManager,
    keys: impl Iterator<Item = String>,
    ttl: Duration,
) -> Vec<LockGuard> {
    let mut tasks = JoinSet::new();
    for key in keys {
        let lock = locks.lock(key).ttl(ttl).wait(LONG);
        tasks.spawn(async move { lock.acquire().await.unwrap() });
    }
    tasks.join_all().await
}

/// Then one node is paused, which loses only its own locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_locks_are_renewed_in_batches_per_slot() {
    let mut cluster = Cluster::plan().without_replicas().start();
    let locks = connected(silent(patient(cluster.url()))).await;
    let ttl = millis(12_000);
    let mut guards = take(&locks, (0..2000).map(|n| format!("row:{n}")), ttl).await;
    let calls = || -> u64 {
        let nodes = cluster.nodes().iter();
        nodes.map(|node| node.calls(&["evalsha"])).sum()
    };
    let (before, from) = (calls(), Instant::now());
    guards.extend(take(&locks, (0..1000).map(|n| format!("{{one slot}}:{n}")), ttl).await);
    until_renewed(&guards).await;
    let rounds = from.elapsed().as_millis() as u64 / (ttl.as_millis() as u64 / 3) + 2;
    // Locks of one slot are renewed in batches of at most 200, as they fall due.
    let most = rounds * (2000 + 1000 / 10);
    assert!(
        calls() - before <= most,
        "{} calls, {most} expected",
        calls() - before
    );

    let frozen = Cluster::first_slot(1)..Cluster::first_slot(2);
    let is_frozen = |guard: &LockGuard| frozen.contains(&slot_of(&format!("lock:{}", guard.key())));
    let (lost, kept): (Vec<_>, Vec<_>) = guards.into_iter().partition(is_frozen);
    assert!(
        kept.len() > 1000 && lost.len() > 500,
        "{} kept, {} lost",
        kept.len(),
        lost.len()
    );
    cluster.node_mut(1).pause();
    let all_lost = async {
        while lost.iter().any(LockGuard::is_valid) {
            tokio::time::sleep(millis(10)).await;
        }
    };
    soon(all_lost).await;
    until_renewed(&kept).await;
    cluster.node_mut(1).resume();
    drop((kept, lost));
    locks.shutdown().await;
}
