//! Servers that crash and come back, and that end connections or refuse writes, beyond the cases of
//! `conformance::outage`.

use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use super::fixture::Fixture;
use lock_test_support::manager::{connected, refusal, until_pinged, until_renewed, use_once};
use lock_test_support::postgres::Postgres;
use lock_test_support::time::{millis, patient, soon};

/// The queue is not written to the disk. A crash of the server empties it, and waiters enter it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiter_survives_a_crash_that_empties_the_queue() {
    let mut server = Postgres::start();
    let locks = connected(patient(server.url())).await;
    let other = connected(patient(server.url())).await;
    let guard = other.lock("row").acquire().await.unwrap();
    let waiter = tokio::spawn(locks.lock("row").acquire());
    server.until_waiting("row", 1);
    server.kill();
    server.restart();
    assert!(!waiter.is_finished(), "the lock is held");
    server.until_waiting("row", 1);
    guard.release().await.unwrap();
    let guard = soon(waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn connections_ended_by_the_server_are_replaced() {
    let fixture = Fixture::start().await;
    let ttl = millis(15_000);
    let guard = fixture.locks().lock("row").ttl(ttl).acquire().await;
    let guard = guard.unwrap();
    for n in 0..5 {
        assert!(fixture.terminate_connections() > 0);
        use_once(fixture.locks(), &format!("other:{n}")).await;
    }
    until_renewed([&guard]).await;
    guard.release().await.unwrap();
    let left = fixture.connections();
    assert!((1..=2).contains(&left), "{left} connections");
}

/// A lock that is held, and a process that waits, are idle for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timeout_of_idle_sessions_ends_no_connection() {
    let server = Postgres::with(&[("idle_session_timeout", "3000")]);
    let locks = connected(patient(server.url())).await;
    let other = connected(patient(server.url())).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("row").acquire());
    server.until_waiting("row", 1);
    let pids = || -> String {
        server.query(
            "SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity \
            WHERE application_name = 'lock-runtime'",
        )
    };
    let before = pids();
    // Another session is idle since later than these.
    let session = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    assert!(soon(session.1).await.is_err());
    assert_eq!(pids(), before);
    guard.release().await.unwrap();
    let guard = soon(waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// As on a standby: a read-only server grants no locks; once it accepts writes, locks work soon.
#[tokio::test]
async fn read_only_server_is_unavailable() {
    let server = Postgres::start();
    let locks = connected(patient(server.url())).await;
    server.alter("default_transaction_read_only", "on");
    server.terminate_connections();
    let refused = locks
        .lock("row")
        .wait(millis(300))
        .acquire()
        .await
        .unwrap_err();
    assert!(refused.is_unavailable(), "{refused}");
    let waiter = tokio::spawn(locks.lock("row").acquire());
    server.alter("default_transaction_read_only", "off");
    let guard = soon(waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// The connection to it stays.
#[tokio::test]
async fn ping_of_a_server_that_became_read_only_fails() {
    let server = Postgres::start();
    let locks = connected(patient(server.url())).await;
    until_pinged(&locks).await;
    server.alter("default_transaction_read_only", "on");
    let error = locks.ping().await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(format!("{error:?}").contains("25006"), "{error:?}");
    server.alter("default_transaction_read_only", "off");
    until_pinged(&locks).await;
}

/// Every process needs few connections, however many locks it holds and waits for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_locks_need_two_connections() {
    let fixture = Fixture::start().await;
    let other = connected(patient(fixture.url())).await;
    let held = other.lock("held").acquire().await.unwrap();
    let waiter = tokio::spawn(fixture.locks().lock("held").acquire());
    fixture.until_waiting("held", 1);
    let lock = |n| fixture.locks().lock(format!("row:{n}")).acquire();
    let guards = (0..100).map(lock).collect::<JoinSet<_>>();
    let guards = soon(guards.join_all()).await.into_iter();
    let guards: Vec<_> = guards.map(Result::unwrap).collect();
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

#[tokio::test]
async fn full_server_is_unavailable() {
    let server = Postgres::with(&[
        ("max_connections", "4"),
        ("superuser_reserved_connections", "1"),
    ]);
    server.execute("CREATE ROLE clerk LOGIN; GRANT CREATE ON DATABASE postgres TO clerk");
    let mut clients = Vec::new();
    while server.connections() < 3 {
        clients.push(server.client().await);
    }
    let (error, text) = refusal(server.url_for("clerk"), "secret").await;
    assert!(error.is_unavailable(), "{error:?}");
    let says_why = ["connection", "clients"].iter().any(|it| text.contains(it));
    assert!(says_why, "{text}");
}
