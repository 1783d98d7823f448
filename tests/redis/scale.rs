//! Ten thousand locks at once: all are released soon, and they leave nothing behind.

use lock_runtime::{LockError, LockManager};
use tokio::task::JoinSet;

use lock_test_support::manager::{connected, silent, until_renewed};
use lock_test_support::server::Server;
use lock_test_support::time::{eventually, millis, patient};
use lock_test_support::worker::{Worker, arguments, next_order, report_event};

/// The number of guards in each round. Memory is compared over the rounds of 2,000: the temporary needs of
/// more would hide a leak.
const ROUNDS: [usize; 13] = {
    let mut rounds = [2_000; 13];
    rounds[12] = 10_000;
    rounds
};

async fn take(locks: &LockManager, count: usize) -> Vec<lock_runtime::LockGuard> {
    let mut tasks = JoinSet::new();
    for task in 0..100 {
        let locks = locks.clone();
        tasks.spawn(async move {
            let mut guards = Vec::new();
            for n in 0..count / 100 {
                let lock = locks.lock(format!("row:{task}:{n}")).wait(millis(30_000));
                guards.push(lock.acquire().await.unwrap());
            }
            guards
        });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

/// Returns the threads and resident KiB of this process; zeros without `/proc`.
fn usage() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
            .unwrap_or(0)
    };
    (value("Threads:"), value("VmRSS:"))
}

/// In the other process, so that its usage is measured alone.
fn take_and_drop(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let locks = connected(url).await;
        let mut used = Vec::new();
        for guards in ROUNDS {
            let guards = take(&locks, guards).await;
            assert!(guards.iter().all(lock_runtime::LockGuard::is_valid));
            report_event("held");
            next_order();
            drop(guards);
            report_event("dropped");
            next_order();
            used.push(usage());
        }
        let threads: Vec<_> = used.iter().map(|(threads, _)| *threads).collect();
        assert!(
            threads.iter().all(|n| *n == threads[0]),
            "threads: {threads:?}"
        );
        // The allocator's usage rises and falls; only a leak keeps growing.
        let memory =
            |rounds: std::ops::Range<usize>| used[rounds].iter().map(|(_, memory)| *memory);
        let (early, late) = (memory(1..6).max().unwrap(), memory(6..12).min().unwrap());
        let grown = late.saturating_sub(early);
        assert!(grown < 2048, "{grown} KiB more: {used:?}");
        report_event("done");
    });
}

#[test]
fn ten_thousand_dropped_guards_are_released() {
    if let Some(arguments) = arguments() {
        return take_and_drop(&arguments[0]);
    }
    let server = Server::start();
    let mut worker = Worker::start(ten_thousand_dropped_guards_are_released, &[&server.url()]);
    let mut connections = 0;
    for (round, guards) in ROUNDS.into_iter().enumerate() {
        worker.expect("held");
        assert_eq!(server.key_count(), guards);
        if round == 0 {
            connections = server.connections();
        }
        worker.order("drop");
        worker.expect("dropped");
        // Long before their leases end.
        eventually("all keys are gone", || server.key_count() == 0);
        assert_eq!(server.connections(), connections);
        worker.order("continue");
    }
    worker.expect("done");
    worker.succeeds();
}

/// In the other process: locks many names, once each.
fn take_each_name(url: &str, names: u64) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let locks = connected(patient(url)).await;
        let mut early = 0;
        for tenth in 0..10 {
            let mut tasks = JoinSet::new();
            for task in 0..100 {
                let locks = locks.clone();
                tasks.spawn(async move {
                    for n in 0..names / 1000 {
                        let lock = locks.lock(format!("row:{tenth}:{task}:{n}"));
                        let guard = lock.wait(millis(30_000)).acquire().await.unwrap();
                        if n == 0 {
                            guard.fencing_token().await.unwrap();
                        }
                        guard.release().await.unwrap();
                    }
                });
            }
            tasks.join_all().await;
            if tenth == 1 {
                (_, early) = usage();
            }
            report_event("tenth");
        }
        let (_, late) = usage();
        let grown = late.saturating_sub(early);
        assert!(grown < 2048, "{grown} KiB more");
        locks.shutdown().await;
        report_event(format!(
            "done {early} KiB after a fifth of them, {grown} more after all"
        ));
    });
}

/// `LOCK_NAMES` sets the number of names.
#[test]
fn name_locked_once_leaves_no_memory() {
    if let Some(arguments) = arguments() {
        return take_each_name(&arguments[0], arguments[1].parse().unwrap());
    }
    let names = std::env::var("LOCK_NAMES").unwrap_or("20000".into());
    let server = Server::start();
    let url = server.url();
    let mut worker = Worker::start(name_locked_once_leaves_no_memory, &[&url, &names]);
    (0..10).for_each(|_| drop(worker.expect("tenth")));
    let used = worker.expect("done");
    println!("{names} names: {used}");
    worker.succeeds();
    // The counter of fencing tokens.
    assert_eq!(server.key_count(), 1);
}

#[tokio::test]
async fn held_guards_are_renewed_in_batches() {
    let server = Server::start();
    let locks = connected(silent(server.url())).await;
    let mut guards = Vec::new();
    for n in 0..500 {
        let lock = locks.lock(format!("row:{n}")).ttl(millis(9000));
        guards.push(lock.acquire().await.unwrap());
    }
    server.query::<()>("CONFIG RESETSTAT");
    until_renewed(&guards).await;
    let requests = server.calls(&["evalsha", "eval"]);
    // One by one, at least 500.
    assert!(
        (1..250).contains(&requests),
        "{requests} requests renew 500 locks"
    );
    assert_eq!(server.key_count(), 500);
}

/// Its error does not contain the whole key.
#[tokio::test]
async fn key_that_no_server_stores_is_rejected() {
    let server = Server::start();
    let locks = connected(silent(server.url())).await;
    let giant = "k".repeat((512 << 20) + 1);
    let error = locks.lock(giant).acquire().await.unwrap_err();
    let (text, debug) = (error.to_string(), format!("{error:?}"));
    assert!(text.len() < 1000 && debug.len() < 1000);
    assert!(matches!(error, LockError::InvalidKey { .. }) && text.contains("512"));
}
