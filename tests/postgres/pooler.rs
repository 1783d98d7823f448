//! Behind PgBouncer in transaction mode, where each statement may reach another backend, everything works but
//! the push: waiters ask again.

use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

use super::fixture::ensure;
use super::listener::grant_comes_by_message;
use lock_runtime::LockError;
use lock_test_support::manager::{connected, refusal, until_renewed, use_once, warmed_up};
use lock_test_support::pgbouncer::{POOL_SIZE, PgBouncer};
use lock_test_support::postgres::{Postgres, url_at};
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{eventually, millis, patient, soon};

#[tokio::test]
async fn locks_exclude_each_other_behind_a_pooler() {
    let server = Postgres::start();
    let pooler = PgBouncer::to(server.port());
    let (one, two) = (
        connected(patient(pooler.url())).await,
        connected(patient(pooler.url())).await,
    );
    let inside = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for n in 0..40 {
        let locks = [&one, &two][n % 2].clone();
        let inside = inside.clone();
        tasks.spawn(async move {
            let guard = locks.lock("row").acquire().await.unwrap();
            use std::sync::atomic::Ordering::SeqCst;
            assert_eq!(inside.fetch_add(1, SeqCst), 0, "two callers hold the lock");
            tokio::time::sleep(millis(2)).await;
            inside.fetch_sub(1, SeqCst);
            guard.release().await.unwrap();
        });
    }
    soon(tasks.join_all()).await;
    one.shutdown().await;
    two.shutdown().await;
}

/// A statement can't choose the level of the transaction that it is.
#[tokio::test]
async fn isolation_level_of_the_role_is_refused_with_the_remedy() {
    let server = Postgres::start();
    connected(server.url()).await.shutdown().await;
    server.execute("ALTER ROLE postgres SET default_transaction_isolation = 'serializable'");
    let (error, text) = {
        let pooler = PgBouncer::to(server.port());
        refusal(pooler.url(), "no secret").await
    };
    assert!(
        matches!(error, LockError::InvalidConfig { .. }),
        "{error:?}"
    );
    let remedy = "ALTER ROLE \"postgres\" SET default_transaction_isolation = 'read committed'";
    assert!(text.contains(remedy), "{text}");
    server.execute(remedy);
    let pooler = PgBouncer::to(server.port());
    let locks = connected(patient(pooler.url())).await;
    use_once(&locks, "row").await;
    locks.shutdown().await;
}

/// As the guide advises. In the same pool, no renewal would find a connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_of_its_own_keeps_locks_from_the_transactions_that_they_protect() {
    let ttl = millis(6000);
    let server = Postgres::start();
    let pooler = PgBouncer::to(server.port());
    let locks = connected(patient(pooler.url_of_another_pool())).await;
    let guard = locks.lock("row").ttl(ttl).acquire().await.unwrap();
    let mut clients = Vec::new();
    for _ in 0..POOL_SIZE {
        clients.push(client_of(&pooler.url()).await);
    }
    let mut transactions = Vec::new();
    for client in &mut clients {
        let transaction = client.transaction().await.unwrap();
        ensure(&transaction, &guard).await.unwrap();
        transactions.push(transaction);
    }
    let late = client_of(&pooler.url()).await;
    let query = tokio::time::timeout(millis(300), late.batch_execute("SELECT 1"));
    assert!(query.await.is_err(), "the pool has another connection");
    until_renewed([&guard]).await;
    for transaction in transactions {
        transaction.commit().await.unwrap();
    }
    guard.release().await.unwrap();
}

async fn client_of(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn restarted_pooler_costs_no_lock() {
    let server = Postgres::start();
    let mut pooler = PgBouncer::to(server.port());
    let locks = connected(patient(pooler.url())).await;
    let ttl = millis(12_000);
    let guard = locks.lock("row").ttl(ttl).acquire().await.unwrap();
    for n in 0..2 {
        pooler.restart();
        use_once(&locks, &format!("other:{n}")).await;
        until_renewed([&guard]).await;
    }
    guard.release().await.unwrap();
    server.until_gone("row");
}

/// The pooler does not connect at once to a server that was away, and its clients wait: for 15 s, unless
/// `server_login_retry` is less.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_server_is_used_soon_behind_a_pooler() {
    let mut server = Postgres::start();
    let pooler = PgBouncer::to(server.port());
    let locks = connected(patient(pooler.url()).command_timeout(millis(2000))).await;
    for _ in 0..2 {
        // Otherwise the crash may undo the release before it.
        server.execute("CHECKPOINT");
        server.kill();
        let before = pooler.failures();
        let error = locks.lock("row").wait(millis(300)).acquire().await;
        assert!(error.unwrap_err().is_unavailable());
        eventually("the pooler finds no server", || pooler.failures() > before);
        server.restart();
        soon(use_once(&locks, "row")).await;
    }
}

/// PgBouncer gives a process of the server to another client once one of several replies is there, if the
/// first client leaves then: the other one would get replies to statements that it did not send.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_that_leaves_has_at_most_one_reply_outstanding() {
    let server = Postgres::start();
    let pooler = PgBouncer::to(server.port());
    let network = Proxy::to(pooler.port());
    let locks = warmed_up(url_at(network.port())).await;
    let blocker = server.client().await;
    let keys = || (0..4).map(|n| format!("row:{n}"));
    for key in keys() {
        let block =
            format!("SELECT pg_advisory_lock(hashtextextended('distributed_lock lock:{key}', 0))");
        blocker.batch_execute(&block).await.unwrap();
    }
    let blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'";
    for round in 0..8 {
        let calls: JoinSet<_> = keys().map(|key| locks.lock(key).acquire()).collect();
        eventually("a statement waits", || server.query::<usize>(blocked) > 0);
        // Some of the statements that were sent with it are answered.
        tokio::time::sleep(millis(round * 40)).await;
        network.cut();
        drop(calls);
        network.heal();
        eventually("no statement waits", || server.query::<usize>(blocked) == 0);
    }
    drop(blocker);
    soon(locks.shutdown()).await;
    assert_eq!(pooler.misplaced(), 0);
}

/// The pooler may still send a statement of a connection that its client has given up, after the release that
/// the client sent over another one.
#[tokio::test]
async fn late_acquire_behind_a_pooler_leaves_no_lock() {
    let server = Postgres::start();
    let before = Proxy::to(server.port());
    let pooler = PgBouncer::to(before.port());
    let locks = warmed_up(pooler.url()).await;
    before.strand();
    let gave_up = locks.lock("given-up").wait(millis(700)).acquire();
    drop(soon(gave_up).await);
    before.heal();
    soon(locks.shutdown()).await;
    // What was under way has arrived by then, and is undone before its lease ends.
    tokio::time::sleep(millis(500)).await;
    server.until_gone("given-up");
}

/// The first client of a pooler gets a backend that is as new as its own connection. What it sets there, or
/// listens to, would be other clients'.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fresh_backend_of_a_pooler_is_not_taken_for_ones_own() {
    for _ in 0..3 {
        let server = Postgres::start();
        let pooler = PgBouncer::to(server.port());
        let network = Proxy::to(pooler.port());
        let one = connected(patient(url_at(network.port()))).await;
        let two = connected(patient(pooler.url())).await;
        let guard = one.lock("row").acquire().await.unwrap();
        let waiter = tokio::spawn(two.lock("row").acquire());
        server.until_waiting("row", 1);
        let session_locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
            AND pid IN (SELECT pid FROM pg_stat_activity WHERE state = 'idle')";
        assert_eq!(server.query::<usize>(session_locks), 0);
        guard.release().await.unwrap();
        let guard = soon(waiter).await.unwrap().unwrap();
        guard.release().await.unwrap();
        // A lost connection ends no backend, which serves others by then.
        network.cut();
        network.heal();
        soon(use_once(&one, "row")).await;
        assert!(!server.log().contains("administrator command"));
        one.shutdown().await;
        two.shutdown().await;
    }
}

/// With the address of the server itself for notifications, a grant comes by a message behind a pooler, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listen_parameter_brings_the_push_back() {
    let server = Postgres::start();
    let pooler = PgBouncer::to(server.port());
    grant_comes_by_message(&server, (pooler.url(), pooler.port()), || {}).await;
}
