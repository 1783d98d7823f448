//! A statement whose reply is lost may have been carried out, beyond the cases of
//! `conformance::lost_replies`: behind a pooler, in a process that may not be ended, and of a waiter.

use std::future::poll_fn;

use lock_runtime::{Config, LockManager, Report};
use tokio_postgres::{AsyncMessage, Client, NoTls};

use lock_test_support::manager::{connected, use_once, warmed_up};
use lock_test_support::pgbouncer::PgBouncer;
use lock_test_support::postgres::{Postgres, url_at};
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{PATIENCE, eventually, patient, soon};

/// A pooler reports the lost connection to the server as an error, which says nothing about the statement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquire_whose_reply_a_pooler_lost_is_released() {
    let server = Postgres::start();
    let before = Proxy::to(server.port());
    let pooler = PgBouncer::to(before.port());
    // A report would be sent before it.
    let locks = warmed_up(patient(pooler.url()).report(Report::Off)).await;
    before.hold_replies();
    let acquire = tokio::spawn(locks.lock("row").acquire());
    eventually("it is carried out", || server.is_held("row"));
    before.lose_held_replies();
    let guard = soon(acquire).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// Returns a client that listens like a process which waits, and its messages.
async fn listening(server: &Postgres) -> (Client, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let (client, mut connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    let (sender, messages) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(message) = message {
                let _ = sender.send(message.payload().to_owned());
            }
        }
    });
    let listen = "LISTEN waiter;
        SELECT pg_advisory_lock(hashtextextended('distributed_lock listens waiter', 0))";
    client.batch_execute(listen).await.unwrap();
    (client, messages)
}

/// A release is answered, and the connection breaks before the next waiter is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiter_is_told_over_the_next_connection() {
    let server = Postgres::start();
    let proxy = Proxy::to(server.port());
    let locks = warmed_up(patient(url_at(proxy.port()))).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    let (_client, mut messages) = listening(&server).await;
    server.execute(
        "INSERT INTO distributed_lock.waiting
            (name, token, max_holders, ttl, asked_at, alive_until, channel)
            VALUES ('lock:row', '0123456789abcdef0123456789abcdef', 1, 1000000, clock_timestamp(),
                clock_timestamp() + interval '1 min', 'waiter')",
    );
    proxy.hold_replies();
    let release = tokio::spawn(guard.release());
    server.until_waiting("row", 0);
    proxy.hold_requests();
    proxy.pass_replies();
    release.await.unwrap().unwrap();
    proxy.cut();
    proxy.heal();
    let message = soon(messages.recv()).await.unwrap();
    assert!(message.starts_with("grant 0123"), "{message}");
}

/// A role that may not end its own processes.
async fn without_the_right_to_end(server: &Postgres, proxy: &Proxy) -> LockManager {
    server.execute("CREATE ROLE app LOGIN; GRANT CREATE ON DATABASE postgres TO app");
    allow_to_end(server, "REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC");
    let url = format!("postgres://app@127.0.0.1:{}/postgres", proxy.port());
    warmed_up(Config::new(url).wait(PATIENCE)).await
}

fn allow_to_end(server: &Postgres, statement: &str) {
    server.execute(&format!(
        "DO $$ DECLARE f regprocedure; BEGIN
            SELECT oid INTO f FROM pg_proc WHERE proname = 'pg_terminate_backend';
            EXECUTE format('{statement}', f);
        END $$"
    ));
}

/// The process behind a connection that broke may still carry out what was sent to it, until it has ended.
#[tokio::test]
async fn process_that_could_not_be_ended_is_ended_later() {
    let server = Postgres::start();
    let proxy = Proxy::to(server.port());
    let locks = without_the_right_to_end(&server, &proxy).await;
    let pids = "SELECT pid FROM pg_stat_activity WHERE usename = 'app'";
    let first: Vec<_> = server.rows(pids).concat();
    assert_eq!(first.len(), 1);
    let is_there = || server.rows(pids).concat().contains(&first[0]);
    let use_next_connection = async |key: &str| {
        proxy.strand();
        use_once(&locks, key).await;
    };
    use_next_connection("one").await;
    assert!(is_there());
    allow_to_end(&server, "GRANT EXECUTE ON FUNCTION %s TO PUBLIC");
    use_next_connection("two").await;
    assert!(!is_there());
}

/// A waiter asks, and its connection breaks. It asks again, gets the lock, and releases it. Only then the
/// first request arrives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wait_with_lost_reply_is_never_carried_out_after_the_release() {
    let server = Postgres::start();
    let proxy = Proxy::to(server.port());
    let locks = without_the_right_to_end(&server, &proxy).await;
    let other = connected(patient(server.url())).await;
    let guard = other.lock("row").acquire().await.unwrap();
    let waiter = tokio::spawn(locks.lock("row").acquire());
    server.until_waiting("row", 1);
    // What the waiter sent first has been answered: what it sends next is late.
    use_once(&locks, "warm").await;
    proxy.hold_requests();
    eventually("the waiter asks", || proxy.held() > 0);
    proxy.strand();
    proxy.pass_requests();
    guard.release().await.unwrap();
    let guard = soon(waiter).await.unwrap().unwrap();
    let release = tokio::spawn(guard.release());
    server.until_gone("row");
    let ended = proxy.ended();
    proxy.heal();
    eventually("the late request arrives", || proxy.ended() > ended);
    // It may not be confirmed within the call.
    drop(release.await.unwrap());
    soon(locks.shutdown()).await;
    server.until_gone("row");
    assert_eq!(server.waiting("row"), 0);
}
