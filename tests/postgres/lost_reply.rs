//! A statement whose reply is lost may have been carried out. No lock may stay without a holder, and no acquisition
//! may be carried out after its own release.

use std::future::poll_fn;

use lock_runtime::LockManager;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use super::fixture::behind_a_proxy;
use lock_test_support::manager::{connected, warmed_up};
use lock_test_support::pgbouncer::PgBouncer;
use lock_test_support::postgres::{Postgres, url_at};
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{NOISE, Stopwatch, begin, eventually, millis, patient, within};

#[tokio::test]
async fn unanswered_acquire_is_retried_and_held_once() {
    let (server, proxy, locks) = behind_a_proxy().await;
    proxy.lose_next_reply();
    let guard = within(millis(4000), locks.lock("row").acquire())
        .await
        .unwrap();
    assert_eq!(proxy.lost_replies(), 1);
    assert!(guard.is_valid() && server.is_held("row"));
    within(millis(2000), guard.release()).await.unwrap();
    assert!(!server.is_held("row"));
}

#[tokio::test]
async fn unanswered_release_is_retried() {
    let (server, proxy, locks) = behind_a_proxy().await;
    let guard = locks.lock("row").acquire().await.unwrap();
    proxy.lose_next_reply();
    drop(guard);
    eventually(NOISE, "the reply is lost", || proxy.lost_replies() == 1);
    server.until_gone("row", millis(2000));

    // An awaited release either succeeds or reports that it could not be confirmed; it never reports a loss.
    let guard = locks.lock("row").acquire().await.unwrap();
    proxy.lose_next_reply();
    let released = within(millis(3000), guard.release()).await;
    assert!(released.is_ok() || released.unwrap_err().is_unavailable());
    server.until_gone("row", millis(2000));
}

#[tokio::test]
async fn release_during_outage_is_retried_until_recovery() {
    for fault in [Proxy::cut, Proxy::black_hole] {
        let (server, proxy, locks) = behind_a_proxy().await;
        let dropped = locks.lock("dropped").acquire().await.unwrap();
        let guard = locks.lock("row").acquire().await.unwrap();
        fault(&proxy);
        drop(dropped);
        let error = within(millis(2500), guard.release()).await.unwrap_err();
        assert!(
            error.is_unavailable() && error.key() == Some("row"),
            "{error}"
        );
        assert!(server.is_held("row") && server.is_held("dropped"));
        proxy.heal();
        server.until_gone("row", millis(4000));
        server.until_gone("dropped", millis(4000));
    }
}

#[tokio::test]
async fn shutdown_waits_for_retried_release() {
    let (server, proxy, locks) = behind_a_proxy().await;
    let guard = locks.lock("row").acquire().await.unwrap();
    proxy.cut();
    drop(guard);
    let heal = async {
        tokio::time::sleep(millis(300)).await;
        proxy.heal();
    };
    within(millis(6000), async { tokio::join!(locks.shutdown(), heal) }).await;
    assert!(!server.is_held("row"));
}

#[tokio::test]
async fn call_dropped_during_acquire_leaves_no_lock() {
    let (server, proxy, locks) = behind_a_proxy().await;
    proxy.hold_replies();
    {
        let mut acquire = Box::pin(locks.lock("row").acquire());
        assert!(begin(&mut acquire).is_pending());
        let granted = async {
            while !server.is_held("row") {
                tokio::time::sleep(millis(5)).await;
            }
        };
        tokio::select! {
            _ = &mut acquire => panic!("no reply came"),
            () = within(NOISE, granted) => {}
        }
    }
    proxy.heal();
    server.until_gone("row", millis(2000));
}

/// The statement is on its way when its caller is dropped.
#[tokio::test]
async fn acquire_arriving_after_its_caller_was_dropped_is_released() {
    let (server, proxy, locks) = behind_a_proxy().await;
    proxy.black_hole();
    {
        let mut acquire = Box::pin(locks.lock("row").acquire());
        let pending = tokio::time::timeout(millis(50), &mut acquire).await;
        assert!(pending.is_err());
    }
    proxy.heal();
    within(millis(6000), locks.shutdown()).await;
    server.until_gone("row", millis(1000));
}

/// The statement is held in the network while its connection is replaced, and arrives long after the release that
/// its caller sent over the new one.
#[tokio::test]
async fn acquire_with_lost_reply_is_never_carried_out_after_its_release() {
    let (server, proxy, locks) = behind_a_proxy().await;
    proxy.strand();
    let gave_up = locks.lock("given-up").wait(millis(700)).acquire();
    drop(within(millis(700) + NOISE, gave_up).await);
    // Later requests are not stuck.
    let guard = within(millis(1500) + NOISE, locks.lock("row").acquire())
        .await
        .unwrap();
    guard.release().await.unwrap();
    proxy.heal();
    // However late it is looked at, the lock is not there for its whole ttl of 30 s.
    server.until_gone("given-up", millis(4000));
    tokio::time::sleep(millis(500)).await;
    assert!(
        !server.is_held("given-up"),
        "the late statement was carried out"
    );
}

#[tokio::test]
async fn timed_out_acquire_leaves_no_lock() {
    let (server, proxy, locks) = behind_a_proxy().await;
    for hole in [Proxy::black_hole, Proxy::hold_replies] {
        hole(&proxy);
        let start = Stopwatch::start();
        let error = locks
            .lock("row")
            .wait(millis(400))
            .acquire()
            .await
            .unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        assert!(
            start.elapsed() < millis(400 + 500) + NOISE,
            "{:?}",
            start.elapsed()
        );
        proxy.heal();
        let guard = within(millis(6000), locks.lock("row").wait(millis(6000)).acquire()).await;
        guard.unwrap().release().await.unwrap();
        server.until_gone("row", millis(2000));
    }
    within(millis(6000), locks.shutdown()).await;
    assert!(!server.is_held("row"));
}

/// High latency only slows calls down.
#[tokio::test]
async fn slow_network_only_delays_calls() {
    let (server, proxy, locks) = behind_a_proxy().await;
    proxy.delay(millis(60));
    let guard = within(millis(2000), locks.lock("row").acquire())
        .await
        .unwrap();
    assert!(guard.fencing_token().await.unwrap() > 0);
    within(millis(2000), guard.release()).await.unwrap();
    assert!(!server.is_held("row"));
}

/// A pooler reports the lost connection to the server as an error, which says nothing about the statement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquire_whose_reply_a_pooler_lost_is_released() {
    let server = Postgres::start();
    let before = Proxy::to(server.port());
    let pooler = PgBouncer::to(before.port());
    let locks = warmed_up(patient(pooler.url())).await;
    before.hold_replies();
    let acquire = tokio::spawn(locks.lock("row").wait(millis(20_000)).acquire());
    eventually(millis(3000), "it is carried out", || server.is_held("row"));
    before.lose_held_replies();
    let guard = within(millis(6000), acquire).await.unwrap().unwrap();
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
                clock_timestamp() + interval '10 s', 'waiter')",
    );
    proxy.hold_replies();
    let release = tokio::spawn(guard.release());
    server.until_waiting("row", 0);
    proxy.hold_requests();
    proxy.pass_replies();
    release.await.unwrap().unwrap();
    proxy.cut();
    proxy.heal();
    let message = within(millis(3000), messages.recv()).await.unwrap();
    assert!(message.starts_with("grant 0123"), "{message}");
}

/// A role that may not end its own processes.
async fn without_the_right_to_end(server: &Postgres, proxy: &Proxy) -> LockManager {
    server.execute("CREATE ROLE app LOGIN; GRANT CREATE ON DATABASE postgres TO app");
    allow_to_end(server, "REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC");
    warmed_up(format!(
        "postgres://app@127.0.0.1:{}/postgres",
        proxy.port()
    ))
    .await
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
        let guard = locks.lock(key).wait(millis(5000)).acquire().await.unwrap();
        guard.release().await.unwrap();
    };
    use_next_connection("one").await;
    assert!(is_there());
    allow_to_end(&server, "GRANT EXECUTE ON FUNCTION %s TO PUBLIC");
    use_next_connection("two").await;
    assert!(!is_there());
}

/// A waiter asks, and its connection breaks. It asks again, gets the lock, and releases it. Only then the first request
/// arrives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wait_with_lost_reply_is_never_carried_out_after_the_release() {
    let server = Postgres::start();
    let proxy = Proxy::to(server.port());
    let locks = without_the_right_to_end(&server, &proxy).await;
    let other = connected(server.url()).await;
    let guard = other.lock("row").acquire().await.unwrap();
    let waiter = tokio::spawn(locks.lock("row").wait(millis(20_000)).acquire());
    server.until_waiting("row", 1);
    proxy.strand();
    guard.release().await.unwrap();
    let guard = within(millis(5000), waiter).await.unwrap().unwrap();
    let release = tokio::spawn(guard.release());
    let ended = proxy.ended();
    server.until_gone("row", millis(2000));
    proxy.heal();
    eventually(millis(2000), "the late request arrives", || {
        proxy.ended() > ended
    });
    // It may not be confirmed within the call.
    drop(release.await.unwrap());
    within(millis(6000), locks.shutdown()).await;
    server.until_gone("row", millis(1000));
    assert_eq!(server.waiting("row"), 0);
}
