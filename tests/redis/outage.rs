//! Servers that restart, forget their scripts, or refuse writes, beyond the cases of `conformance::outage`.

use lock_test_support::manager::{connected, until_renewed, use_once};
use lock_test_support::server::Server;
use lock_test_support::time::{PATIENCE, eventually, millis, patient, soon};

/// A waiter is served if the server recovers in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiter_survives_server_restart() {
    let mut server = Server::start();
    server.query::<()>("SET lock:row other-client PX 60000");
    let locks = connected(server.url()).await;
    let waiter = tokio::spawn(locks.lock("row").wait(PATIENCE).acquire());
    server.until_waiting("row", 1);
    server.kill();
    tokio::time::sleep(millis(200)).await;
    assert!(!waiter.is_finished());
    server.restart();
    let guard = soon(waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// An empty script cache causes no failure.
#[tokio::test]
async fn flushed_scripts_are_loaded_again() {
    let server = Server::start();
    let locks = connected(server.url()).await;
    server.query::<()>("SCRIPT FLUSH");
    let guard = locks.lock("row").ttl(millis(6000)).acquire().await.unwrap();
    assert!(guard.fencing_token().await.unwrap() > 0);
    server.query::<()>("SCRIPT FLUSH");
    until_renewed([&guard]).await;
    server.query::<()>("SCRIPT FLUSH");
    guard.release().await.unwrap();
    assert!(!server.exists("lock:row"));
}

#[tokio::test]
async fn connections_closed_by_server_are_replaced() {
    let server = Server::start();
    let locks = connected(patient(server.url())).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    for n in 0..5 {
        assert!(server.query::<u64>("CLIENT KILL TYPE normal SKIPME yes") > 0);
        use_once(&locks, &format!("other:{n}")).await;
    }
    guard.release().await.unwrap();
    // One of the I/O thread, and one of this runtime.
    let few = || (1..=2).contains(&server.connections());
    eventually("no other connection is left", few);
}

/// A full server rejects new locks, but held locks are renewed and released.
#[tokio::test]
async fn full_server_renews_and_releases_locks() {
    let server = Server::start();
    let locks = connected(server.url()).await;
    let guard = locks.lock("row").ttl(millis(6000)).acquire().await.unwrap();
    server.query::<()>("CONFIG SET maxmemory 1");
    let refused = locks
        .lock("other")
        .wait(millis(200))
        .acquire()
        .await
        .unwrap_err();
    assert!(refused.is_unavailable(), "{refused}");
    until_renewed([&guard]).await;
    guard.release().await.unwrap();
    assert!(!server.exists("lock:row"));
}

/// As after a failover: a replica grants no locks; once it is a master again, locks work soon.
#[tokio::test]
async fn read_only_server_is_unavailable() {
    let server = Server::start();
    let locks = connected(server.url()).await;
    server.query::<()>("REPLICAOF 127.0.0.1 1");
    let refused = locks
        .lock("row")
        .wait(millis(200))
        .acquire()
        .await
        .unwrap_err();
    assert!(refused.is_unavailable(), "{refused}");
    let waiter = tokio::spawn(locks.lock("row").wait(PATIENCE).acquire());
    tokio::time::sleep(millis(100)).await;
    server.query::<()>("REPLICAOF NO ONE");
    soon(waiter)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}
