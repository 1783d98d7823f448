//! Waiters are woken by another process.

use lock_test_support::manager::{connected, silent, use_once};
use lock_test_support::mariadb::MariaDb;
use lock_test_support::time::{eventually, millis, patient, soon};
use tokio::time::Instant;

/// Returns the number of statements so far, by which processes look whether it is their turn.
fn looks(server: &MariaDb) -> u64 {
    let count = server.query("SHOW GLOBAL STATUS LIKE 'com_stmt_execute'");
    count.split('\t').next_back().unwrap().parse().unwrap()
}

fn ears(server: &MariaDb) -> usize {
    let waiting = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'";
    server.query(waiting).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiter_is_woken_by_the_release() {
    let server = MariaDb::start();
    let holder = connected(silent(patient(server.url()))).await;
    let waiter = connected(silent(patient(server.url()))).await;
    // The waiter's bell is up once it has waited.
    let held = holder.lock("row").acquire().await.unwrap();
    let waits = tokio::spawn(waiter.lock("row").acquire());
    eventually("it listens", || ears(&server) == 1);
    held.release().await.unwrap();
    soon(waits).await.unwrap().unwrap().release().await.unwrap();
    for _ in 0..5 {
        let held = holder.lock("row").acquire().await.unwrap();
        let waits = tokio::spawn(waiter.lock("row").acquire());
        eventually("it waits", || {
            server
                .query("SELECT LENGTH(record) > 90 FROM distributed_locks WHERE name = 'lock:row'")
                == "1"
        });
        held.release().await.unwrap();
        soon(waits).await.unwrap().unwrap().release().await.unwrap();
    }
    holder.shutdown().await;
    waiter.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_that_hears_bells_looks_rarely() {
    let server = MariaDb::start();
    let holder = connected(silent(patient(server.url()))).await;
    let waiter = connected(silent(patient(server.url()))).await;
    let held = holder.lock("row").acquire().await.unwrap();
    let waits = tokio::spawn(waiter.lock("row").acquire());
    eventually("it listens", || ears(&server) == 1);
    let (before, begun) = (looks(&server), Instant::now());
    tokio::time::sleep(millis(3000)).await;
    let (looked, took) = (looks(&server) - before, begun.elapsed());
    // Two a second, and two in which each process looks what it is asked; without bells there are twenty.
    let most = 10 * (took.as_millis() as u64 / 1000 + 1);
    assert!(looked <= most, "{looked} in {took:?}");
    held.release().await.unwrap();
    soon(waits).await.unwrap().unwrap().release().await.unwrap();
    holder.shutdown().await;
    waiter.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ear_that_is_killed_is_replaced() {
    let server = MariaDb::start();
    let holder = connected(patient(server.url())).await;
    let waiter = connected(patient(server.url())).await;
    let held = holder.lock("row").acquire().await.unwrap();
    let waits = tokio::spawn(waiter.lock("row").acquire());
    for _ in 0..5 {
        eventually("it listens", || ears(&server) == 1);
        server.end_sessions();
    }
    eventually("it listens", || ears(&server) == 1);
    held.release().await.unwrap();
    soon(waits).await.unwrap().unwrap().release().await.unwrap();
    use_once(&holder, "row").await;
    holder.shutdown().await;
    waiter.shutdown().await;
}
