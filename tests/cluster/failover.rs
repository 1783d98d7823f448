//! Failover of a master to its replica.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use lock_runtime::Config;
use tokio::task::JoinSet;

use lock_test_support::cluster::Cluster;
use lock_test_support::manager::{connected, until_renewed, use_once};
use lock_test_support::time::{eventually, millis, patient, soon};

const LONG: Duration = Duration::from_secs(60);

/// Holders keep their locks, and waiters their positions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failover_keeps_locks_and_queue_order() {
    let mut cluster = Cluster::start();
    let fair = || Config::new(cluster.url()).local_handoff(0, Duration::ZERO);
    let holders = connected(fair()).await;
    let keys = cluster.keys_at(1, 3);
    let elsewhere = cluster.keys_at(2, 3);
    let mut held = Vec::new();
    for key in keys.iter().chain(&elsewhere) {
        held.push(holders.lock(key).ttl(millis(9000)).acquire().await.unwrap());
    }
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (mut managers, mut waiting) = (Vec::new(), JoinSet::new());
    for n in 0..3 {
        let locks = connected(fair()).await;
        let (lock, order) = (locks.lock(&keys[0]).wait(LONG), order.clone());
        waiting.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            order.lock().unwrap().push(n);
            tokio::time::sleep(millis(5)).await;
            guard.release().await.unwrap();
        });
        cluster.until_waiting(&keys[0], n + 1);
        managers.push(locks);
    }
    assert!(cluster.node(1).until_replicated(1));
    cluster.node_mut(1).kill();
    cluster.replace(1);
    // All held locks are renewed on the new master.
    until_renewed(&held).await;
    for guard in &held {
        let taken = managers[0].lock(guard.key()).try_acquire().await.unwrap();
        assert!(taken.is_none(), "`{}` is held", guard.key());
    }
    assert!(order.lock().unwrap().is_empty());
    for guard in held {
        guard.release().await.unwrap();
    }
    soon(waiting.join_all()).await;
    assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
}

/// The master stops responding without an error; when it resumes, it does not know that it was replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_master_is_replaced_and_its_late_replies_are_ignored() {
    let mut cluster = Cluster::start();
    let locks = connected(cluster.url()).await;
    let keys = cluster.keys_at(0, 41);
    for key in &keys[..40] {
        use_once(&locks, key).await;
    }
    // A timeout that outlasts the failover.
    let patient = Config::new(cluster.url()).command_timeout(LONG);
    let patient = connected(patient).await;
    let lock = patient.lock(&keys[40]).ttl(LONG);
    lock.clone()
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    cluster.node_mut(0).pause();
    let frozen = Instant::now();
    let asked_of_old = tokio::spawn(lock.try_acquire());
    // Many callers need locks of the paused master; they must not each request the slot map.
    let asked = |cluster: &Cluster| -> u64 {
        let running = (0..cluster.node_count()).filter(|n| cluster.node(*n).runs());
        running
            .map(|n| cluster.node(n).calls(&["cluster|slots"]))
            .sum()
    };
    let before = asked(&cluster);
    let (mut tasks, had) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
    for n in 0..400 {
        let lock = locks.lock(&keys[n % 40]).wait(LONG);
        let had = had.clone();
        tasks.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            had.fetch_add(1, Relaxed);
            guard.release().await.unwrap();
        });
    }
    eventually("the slot map is requested", || asked(&cluster) > before + 2);
    cluster.replace(0);
    soon(tasks.join_all()).await;
    assert_eq!(had.load(Relaxed), 400);
    let seconds = frozen.elapsed().as_secs() + 1;
    // Requests of the test itself are not counted.
    let looks = asked(&cluster) - before;
    println!("{looks} requests for the slot map in {seconds} s");
    assert!(
        looks <= 10 + 5 * seconds,
        "{looks} requests for the slot map in {seconds} s"
    );

    // Requests that the old master executes after it resumes do not count. A reply that takes less than a
    // second is not checked; masters that are not replaced by hand are silent for longer.
    tokio::time::sleep(millis(1500).saturating_sub(frozen.elapsed())).await;
    assert!(!asked_of_old.is_finished());
    cluster.node_mut(0).resume();
    let guard = soon(asked_of_old).await.unwrap().unwrap();
    let guard = guard.expect("the lock was free");
    let done = cluster.node(0).info("INFO commandstats", "cmdstat_set");
    println!("the old master executed: {done:?}");
    let name = format!("lock:{}", guard.key());
    assert!(
        cluster.node(3).exists(&name),
        "the lock is on the new master"
    );
    guard.release().await.unwrap();

    for key in &keys {
        let guard = locks.lock(key).ttl(LONG).acquire().await.unwrap();
        assert!(
            cluster.node(3).exists(&format!("lock:{key}")),
            "`{key}` is on the new master"
        );
        guard.release().await.unwrap();
    }
    cluster.until_ok();
}

/// Planned failovers, one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_work_through_planned_failovers() {
    let mut cluster = Cluster::start();
    let locks = connected(patient(cluster.url())).await;
    let (done, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for n in 0..8 {
        let (locks, done, stop) = (locks.clone(), done.clone(), stop.clone());
        tasks.spawn(async move {
            while stop.load(Relaxed) == 0 {
                let lock = locks.lock(format!("row:{}", n % 5 + done.load(Relaxed) % 40));
                let guard = lock.ttl(LONG).wait(LONG).acquire().await.unwrap();
                guard.release().await.unwrap();
                done.fetch_add(1, Relaxed);
            }
        });
    }
    for node in [0, 1] {
        cluster.node(node + 3).query::<()>("CLUSTER FAILOVER");
        cluster.until_replaced(node);
        // The old master leaves, and rejoins as a replica.
        cluster.node_mut(node).kill();
        let before = done.load(Relaxed);
        eventually("locks are acquired", || done.load(Relaxed) > before + 100);
        cluster.node_mut(node).restart();
        cluster.until_ok();
    }
    stop.store(1, Relaxed);
    soon(tasks.join_all()).await;
    locks.shutdown().await;
}
