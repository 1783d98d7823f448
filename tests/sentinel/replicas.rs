//! Locks that replicas must acknowledge, and locks that they do not know.

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use lock_runtime::{Config, Lock, LockError, LockManager, distributed_lock};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::redis::database::Database;
use lock_test_support::manager::{connected, until_renewed};
use lock_test_support::sentinel::Sentinels;
use lock_test_support::time::{eventually, millis, soon};
use lock_test_support::worker::{Worker, arguments, block_on, next_order, report_event};

const LONG: Duration = Duration::from_secs(60);

async fn connect(all: &Sentinels) -> LockManager {
    connected(all.url()).await
}

/// Pauses the replicas, so that none acknowledges.
fn pause_replicas(all: &mut Sentinels) -> Vec<usize> {
    let replicas = all.replicas();
    replicas.iter().for_each(|n| all.server_mut(*n).pause());
    replicas
}

/// Asserts that `attempt` fails for lack of replicas. A try may also fail while the connection for
/// acknowledgments is being replaced.
async fn too_few(known: &str, attempt: impl AsyncFn() -> Result<(), LockError>) {
    let refused = async {
        loop {
            let error = attempt().await.unwrap_err();
            // The lock that an earlier try left behind is still being released.
            if error.is_busy() {
                continue;
            }
            assert!(error.is_unavailable(), "{error}");
            let source = error.source().unwrap().to_string();
            // On a machine that stalled, the reply may be missing.
            let passing = ["connecting", "no reply"];
            if !passing.iter().any(|words| source.contains(words)) {
                return assert!(source.contains(known), "{source}");
            }
        }
    };
    soon(refused).await;
}

#[distributed_lock(key = "row", wait = "1s", replicas = 1, manager = locks)]
async fn annotated(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquire_fails_with_too_few_replicas() {
    let mut all = Sentinels::start();
    let locks = connect(&all).await;
    let others = connect(&all).await;
    for replicas in 0..=2 {
        let lock = locks.lock("row").replicas(replicas);
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    let taken = async |lock: Lock| soon(lock.acquire()).await.map(drop);
    let wait = millis(600);
    let three = || locks.lock("row").replicas(3).wait(wait);
    too_few("2 of the 3", async || taken(three()).await).await;

    let master = all.master();
    all.server(master).until_gone("lock:row");
    let paused = pause_replicas(&mut all);
    let one = |locks: &LockManager| locks.lock("row").replicas(1);
    let wait = millis(1000);
    for waits in [wait, Duration::ZERO] {
        let lock = || one(&locks).wait(waits);
        too_few("0 of the 1", async || taken(lock()).await).await;
        all.server(master).until_gone("lock:row");
    }
    too_few("0 of the 1", async || annotated(&locks).await).await;
    let by_default = Config::new(all.url()).replicas(1).wait(wait);
    let by_default = connected(by_default).await;
    let lock = || by_default.lock("row");
    too_few("0 of the 1", async || taken(lock()).await).await;
    // A caller that requires no replicas is served, but cannot hand the lock to one that requires more,
    // neither in the same process nor in another.
    for waiting in [&by_default, &others] {
        let after_another = async || {
            let holder = by_default.lock("row").replicas(0).acquire().await.unwrap();
            let waiter = tokio::spawn(one(waiting).wait(millis(4000)).acquire());
            all.server(master).until_waiting("row", 1);
            holder.release().await.unwrap();
            soon(waiter).await.unwrap().map(drop)
        };
        too_few("0 of the 1", after_another).await;
        all.server(master).until_gone("lock:row");
    }

    // When the replicas are back, the waiter is served.
    let waiter = tokio::spawn(one(&locks).wait(LONG).acquire());
    tokio::time::sleep(millis(300)).await;
    assert!(!waiter.is_finished());
    paused.into_iter().for_each(|n| all.resume(n));
    let guard = soon(waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// The server has extended the lease, but no replica knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreplicated_renewal_does_not_extend_lease() {
    let mut all = Sentinels::start();
    let timeout = millis(500);
    let locks = connected(Config::new(all.url()).command_timeout(timeout)).await;
    let ttl = millis(6000);
    let lock = |key| locks.lock(key).ttl(ttl);
    let known = lock("known").replicas(1).acquire().await.unwrap();
    let plain = lock("plain").acquire().await.unwrap();
    until_renewed([&known, &plain]).await;
    let paused = pause_replicas(&mut all);
    // A renewal in flight may still be answered.
    tokio::time::sleep(timeout).await;
    let mut left = known.remaining();
    let lost = async {
        loop {
            tokio::time::sleep(millis(10)).await;
            let now = known.remaining();
            assert!(now <= left, "a renewal counted");
            left = now;
            if now.is_zero() {
                return;
            }
        }
    };
    soon(lost).await;
    let error = known.release().await.unwrap_err();
    // A stalled machine leaves the release without an answer within the short command timeout.
    assert!(error.is_lost() || error.is_unavailable(), "{error}");
    assert!(plain.is_valid());
    plain.release().await.unwrap();
    paused.into_iter().for_each(|n| all.resume(n));
}

/// The master dies before a replica knows the lock, which the documentation warns of. The fencing token
/// distinguishes the two holders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreplicated_lock_is_granted_twice_after_failover() {
    let mut all = Sentinels::start();
    let directory = TempDir::new().unwrap();
    let database = Database::create(&directory.path().join("resource.db"));
    let (first, second) = (connect(&all).await, connect(&all).await);
    let paused = pause_replicas(&mut all);
    // Otherwise the replicas would still read the data already sent when they resume.
    all.server(0).query::<u64>("CLIENT KILL TYPE replica");
    let early = first.lock("row").ttl(LONG).acquire().await.unwrap();
    let early_token = early.fencing_token().await.unwrap();
    assert!(database.set_fenced(1, early_token));
    let careful = || first.lock("careful").replicas(1).wait(millis(500));
    too_few("0 of the 1", async || careful().acquire().await.map(drop)).await;
    let old = all.kill_master();
    paused.into_iter().for_each(|n| all.resume(n));
    all.until_failed_over(old);

    let late = second.lock("row").wait(LONG).acquire().await.unwrap();
    let late_token = late.fencing_token().await.unwrap();
    assert!(late.is_valid());
    // Its process finds out as soon as it follows the new master; its writes may be on their way.
    soon(early.lost()).await;
    assert!(early_token < late_token);
    assert!(database.set_fenced(2, late_token));
    assert!(
        !database.set_fenced(3, early_token),
        "the stale write is rejected"
    );
    assert_eq!(database.value(), 2);
    late.release().await.unwrap();
    assert!(early.release().await.is_err());
}

const KEYS: usize = 4;

/// In each process: four tasks acquire locks and check that they are alone.
async fn look_for_others(url: &str, directory: &Path) {
    let locks = connected(Config::new(url).replicas(1)).await;
    let stop = Arc::new(AtomicBool::new(false));
    let order = stop.clone();
    std::thread::spawn(move || {
        next_order();
        order.store(true, Relaxed);
    });
    let taken = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for task in 0..KEYS {
        let (locks, stop, taken) = (locks.clone(), stop.clone(), taken.clone());
        let directory = directory.to_owned();
        tasks.spawn(async move {
            let mut turn = task;
            while !stop.load(Relaxed) {
                turn += 1;
                let key = format!("row:{}", turn % KEYS);
                let file = directory.join(&key);
                let lock = locks.lock(key).ttl(millis(8000)).wait(LONG);
                let done = lock.run(async |lock| {
                    let file = File::create(file).unwrap();
                    if file.try_lock().is_err() {
                        report_event(format!("double {}", lock.key()));
                    }
                    tokio::time::sleep(millis(5)).await;
                });
                taken.fetch_add(usize::from(done.await.is_ok()), Relaxed);
            }
        });
    }
    report_event("ready");
    tasks.join_all().await;
    locks.shutdown().await;
    report_event(format!("done {}", taken.load(Relaxed)));
}

/// `LOCK_TEST_FAILOVERS` sets the number of failovers.
#[test]
fn replicated_lock_is_never_granted_twice() {
    if let Some(arguments) = arguments() {
        let [url, directory] = &arguments[..] else {
            panic!("a url and a directory");
        };
        return block_on(look_for_others(url, directory.as_ref()));
    }
    let failovers = std::env::var("LOCK_TEST_FAILOVERS").map_or(1, |n| n.parse().unwrap());
    let mut all = Sentinels::start();
    let directory = TempDir::new().unwrap();
    let arguments = [&*all.url(), directory.path().to_str().unwrap()];
    let start = || Worker::start(replicated_lock_is_never_granted_twice, &arguments);
    let mut workers: Vec<_> = (0..4).map(|_| start()).collect();
    workers
        .iter()
        .for_each(|worker| drop(worker.expect("ready")));
    for _ in 0..failovers {
        std::thread::sleep(millis(700));
        let old = all.kill_master();
        all.until_failed_over(old);
        all.restart(old);
        all.until_settled();
    }
    workers.iter_mut().for_each(|worker| worker.order("stop"));
    for worker in &mut workers {
        let taken = worker.expect("done");
        println!("{taken} locks");
        worker.succeeds();
        assert!(taken.parse::<usize>().unwrap() > 20);
    }
    // A lock that was released on a master that died may have come back.
    let master = all.server(all.master());
    eventually("all locks are free", || {
        (0..KEYS).all(|n| !master.exists(&format!("lock:row:{n}")))
    });
    // So may a place in a queue, which stays longer.
    master.query::<()>("FLUSHALL");
}
