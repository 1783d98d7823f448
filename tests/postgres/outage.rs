//! Servers that go away and come back: calls end in time, waiters are served, and nothing is left behind.

use std::time::Instant;

use lock_runtime::LockError;

use super::fixture::Fixture;
use lock_test_support::manager::connected;
use lock_test_support::postgres::Postgres;
use lock_test_support::time::{NOISE, Stopwatch, millis, patient, within};

/// Asserts that calls fail in time while the server is away, and work soon after it has returned.
async fn away_and_back(away: fn(&mut Postgres), back: fn(&mut Postgres)) {
    let mut server = Postgres::start();
    let locks = connected(server.url()).await;
    for _ in 0..2 {
        away(&mut server);
        let start = Stopwatch::start();
        let error = locks
            .lock("row")
            .wait(millis(300))
            .acquire()
            .await
            .unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        assert!(
            start.elapsed() < millis(300) + NOISE,
            "{:?}",
            start.elapsed()
        );
        back(&mut server);
        let guard = locks.lock("row").wait(millis(6000)).acquire();
        let guard = within(millis(4000), guard).await.unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn killed_server_works_after_restart() {
    away_and_back(Postgres::kill, Postgres::restart).await;
}

#[tokio::test]
async fn stopped_server_works_after_restart() {
    away_and_back(Postgres::stop, Postgres::restart).await;
}

#[tokio::test]
async fn paused_server_works_after_resuming() {
    away_and_back(Postgres::pause, Postgres::resume).await;
}

/// A release is not flushed. The process that sent it repeats it after a crash, however long the server is away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_that_a_crash_undid_is_repeated() {
    // So that a release is written only by a later commit.
    let mut server = Postgres::with(&[("wal_writer_delay", "10s")]);
    let locks = connected(server.url()).await;
    for _ in 0..3 {
        let guard = locks.lock("row").acquire().await.unwrap();
        guard.release().await.unwrap();
        server.kill();
        // The process tries to connect meanwhile.
        tokio::time::sleep(millis(400)).await;
        server.restart();
        server.until_gone("row", millis(4000));
    }
}

/// The queue is not written to the disk. A crash of the server empties it, and waiters enter it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiter_survives_a_crash_that_empties_the_queue() {
    let mut server = Postgres::start();
    let locks = connected(patient(server.url())).await;
    let other = connected(patient(server.url())).await;
    let guard = other.lock("row").acquire().await.unwrap();
    let waiter = tokio::spawn(locks.lock("row").wait(millis(20_000)).acquire());
    server.until_waiting("row", 1);
    server.kill();
    server.restart();
    assert!(!waiter.is_finished(), "the lock is held");
    server.until_waiting("row", 1);
    guard.release().await.unwrap();
    let guard = within(millis(3000), waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// A paused server executes the statements that it received after it is resumed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquire_executed_late_leaves_no_lock() {
    let ttl = millis(3000);
    let mut server = Postgres::start();
    let locks = connected(server.url()).await;
    server.pause();
    let start = Instant::now();
    let lock = locks.lock("row").ttl(ttl).wait(millis(300));
    assert!(lock.acquire().await.unwrap_err().is_unavailable());
    let frozen = ttl + millis(500);
    tokio::time::sleep(frozen.saturating_sub(start.elapsed())).await;
    server.resume();
    let guard = locks.lock("row").wait(millis(5000)).acquire();
    within(ttl / 2, guard)
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

/// Neither releases nor waiters take longer than their TTL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_during_outage_ends_within_ttl() {
    let ttl = millis(1000);
    let mut server = Postgres::start();
    let locks = connected(server.url()).await;
    let other = connected(server.url()).await;
    let taken = other
        .lock("taken")
        .ttl(millis(1500))
        .acquire()
        .await
        .unwrap();
    let held = locks.lock("row").ttl(ttl).acquire().await.unwrap();
    let waiter = tokio::spawn(locks.lock("taken").ttl(ttl).wait(millis(20_000)).acquire());
    server.until_waiting("taken", 1);
    server.pause();
    drop(held);
    let start = Stopwatch::start();
    locks.shutdown().await;
    let took = start.elapsed();
    let command_timeout = millis(500);
    assert!(took < ttl + command_timeout + NOISE, "{took:?}");
    let error = waiter.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
    server.resume();
    drop(taken);
}

#[tokio::test]
async fn connections_ended_by_the_server_are_replaced() {
    let fixture = Fixture::start().await;
    let guard = fixture
        .locks()
        .lock("row")
        .ttl(millis(2000))
        .acquire()
        .await
        .unwrap();
    for n in 0..5 {
        assert!(fixture.terminate_connections() > 0);
        let other = fixture
            .locks()
            .lock(format!("other:{n}"))
            .wait(millis(2000));
        let other = within(millis(2000), other.acquire()).await.unwrap();
        other.release().await.unwrap();
    }
    tokio::time::sleep(millis(2000)).await;
    assert!(guard.is_valid(), "the lock is still renewed");
    guard.release().await.unwrap();
    let left = fixture.connections();
    assert!((1..=2).contains(&left), "{left} connections");
}

/// As on a standby: a read-only server grants no locks; once it accepts writes, locks work soon.
#[tokio::test]
async fn read_only_server_is_unavailable() {
    let server = Postgres::start();
    let locks = connected(server.url()).await;
    server.alter("default_transaction_read_only", "on");
    server.terminate_connections();
    let refused = locks
        .lock("row")
        .wait(millis(300))
        .acquire()
        .await
        .unwrap_err();
    assert!(refused.is_unavailable(), "{refused}");
    let waiter = tokio::spawn(locks.lock("row").wait(millis(10_000)).acquire());
    server.alter("default_transaction_read_only", "off");
    let guard = within(millis(3000), waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// Every process needs few connections, however many locks it holds and waits for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_locks_need_two_connections() {
    let fixture = Fixture::start().await;
    let other = connected(patient(fixture.url())).await;
    let held = other.lock("held").acquire().await.unwrap();
    let waiter = tokio::spawn(fixture.locks().lock("held").wait(millis(20_000)).acquire());
    fixture.until_waiting("held", 1);
    let locks = (0..100).map(|n| fixture.locks().lock(format!("row:{n}")).acquire());
    let mut guards = Vec::new();
    for lock in locks {
        guards.push(lock.await.unwrap());
    }
    let connections = fixture.connections();
    assert!(connections <= 4, "two for each process, not {connections}");
    drop((guards, held));
    drop(waiter.await.unwrap().unwrap());
    other.shutdown().await;
}

/// Dead rows cost time, and nothing else.
#[tokio::test]
async fn locks_work_while_a_snapshot_keeps_dead_rows() {
    let fixture = Fixture::start().await;
    let old = fixture.open_snapshot().await;
    let mut last = 0;
    for _ in 0..300 {
        let guard = fixture.locks().lock("row").acquire().await.unwrap();
        let token = guard.fencing_token().await.unwrap();
        assert!(token > last);
        last = token;
        guard.release().await.unwrap();
    }
    drop(old);
}
