//! Sessions that the server, or an administrator, ends.

use std::time::Duration;

use lock_test_support::manager::{connected, until_renewed, use_once};
use lock_test_support::mariadb::MariaDb;
use lock_test_support::time::{eventually, millis, patient, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_are_killed_again_and_again_lose_no_lock() {
    let server = MariaDb::start();
    let locks = connected(patient(server.url())).await;
    let other = connected(patient(server.url())).await;
    let held = locks.lock("held").acquire().await.unwrap();
    let waits = tokio::spawn(other.lock("held").wait(Duration::MAX).acquire());
    for round in 0..10 {
        eventually("they are connected", || server.sessions().len() >= 2);
        server.end_sessions();
        use_once(&locks, &format!("row-{round}")).await;
    }
    until_renewed([&held]).await;
    held.release().await.unwrap();
    let next = soon(waits).await.unwrap().unwrap();
    next.release().await.unwrap();
    locks.shutdown().await;
    other.shutdown().await;
}

/// An administrator's statement may lock the row, or the table, as a backup does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_another_program_locks_delay_calls_alone() {
    let server = MariaDb::start();
    let locks = connected(patient(server.url())).await;
    let held = locks.lock("row").acquire().await.unwrap();
    let socket = server.socket();
    let blocks = std::thread::spawn(move || {
        let statements = "FLUSH TABLES WITH READ LOCK; DO SLEEP(3); UNLOCK TABLES";
        MariaDb::query_at(&socket, statements).unwrap();
    });
    eventually("the tables are locked", || {
        server.query(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'DO SLEEP%'",
        ) == "1"
    });
    let other = soon(locks.lock("other").wait(millis(20_000)).acquire());
    let other = other.await.unwrap();
    blocks.join().unwrap();
    until_renewed([&held]).await;
    held.release().await.unwrap();
    other.release().await.unwrap();
    locks.shutdown().await;
}
