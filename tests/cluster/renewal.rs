//! Renewal of many leases over all nodes.

use std::time::Duration;

use lock_runtime::{LockGuard, LockManager};
use tokio::task::JoinSet;

use super::keys::hash_slot::slot_of;
use lock_test_support::cluster::Cluster;
use lock_test_support::manager::{connected, silent};
use lock_test_support::time::{millis, patient};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_locks_are_renewed_in_batches_per_slot() {
    let cluster = Cluster::plan().without_replicas().start();
    let locks = connected(silent(patient(cluster.url()))).await;
    let ttl = millis(4000);
    let spread = take(&locks, (0..3000).map(|n| format!("row:{n}")), ttl).await;
    let calls = || -> u64 {
        (0..3)
            .map(|node| cluster.node(node).calls(&["evalsha"]))
            .sum()
    };
    let before = calls();
    let together = take(&locks, (0..2000).map(|n| format!("{{one slot}}:{n}")), ttl).await;
    let from = std::time::Instant::now();
    // Past the first lease, so that only renewals have kept the locks.
    tokio::time::sleep(ttl * 3 / 2).await;
    for guard in spread.iter().chain(&together) {
        guard.ensure_valid_for(millis(100)).unwrap();
    }
    let rounds = from.elapsed().as_millis() as u64 / (ttl.as_millis() as u64 / 3) + 2;
    // Locks of one slot are renewed in batches of at most 200, as they fall due.
    let most = rounds * (3000 + 2000 / 10);
    assert!(
        calls() - before <= most,
        "{} calls, {most} expected",
        calls() - before
    );
    drop((spread, together));
    locks.shutdown().await;
}

/// A paused node loses only its own locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_node_does_not_delay_renewals_on_others() {
    let mut cluster = Cluster::plan().without_replicas().start();
    let locks = connected(silent(patient(cluster.url()))).await;
    let ttl = millis(4000);
    let guards = take(&locks, (0..6000).map(|n| format!("row:{n}")), ttl).await;
    cluster.node_mut(1).pause();
    tokio::time::sleep(ttl * 3 / 2).await;
    let frozen = Cluster::first_slot(1)..Cluster::first_slot(2);
    let (mut kept, mut lost) = (0, 0);
    for guard in &guards {
        match frozen.contains(&slot_of(&format!("lock:{}", guard.key()))) {
            true => {
                assert!(
                    !guard.is_valid(),
                    "`{}` cannot be confirmed as held",
                    guard.key()
                );
                lost += 1;
            }
            false => {
                assert!(guard.is_valid(), "`{}` is on another node", guard.key());
                kept += 1;
            }
        }
    }
    assert!(kept > 3000 && lost > 1500, "{kept} kept, {lost} lost");
    cluster.node_mut(1).resume();
    drop(guards);
    locks.shutdown().await;
}
