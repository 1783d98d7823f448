//! A lock that's held by another process is looked for by one waiter of each process, calmly.

use tokio::task::JoinSet;

use crate::support::manager::connected;
use crate::support::server::Server;
use crate::support::time::{NOISE, eventually, millis, within};

/// What `waiters` of one process send in half a second, while they wait for a foreign lock.
async fn commands(waiters: usize) -> u64 {
    let server = Server::start();
    let locks = connected(server.url()).await;
    locks
        .lock("warm")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    server.query::<()>("SET lock:door somebody PX 60000");
    let mut waiting = JoinSet::new();
    for _ in 0..waiters {
        let lock = locks.lock("door").wait(millis(800));
        waiting.spawn(async move { lock.acquire().await.map(drop) });
    }
    // Each has come and has found the door closed.
    tokio::time::sleep(millis(200)).await;
    server.query::<()>("CONFIG RESETSTAT");
    tokio::time::sleep(millis(500)).await;
    let asked = server.calls(&["set", "evalsha", "eval", "get", "pttl"]);
    for waiter in within(millis(100) + NOISE, waiting.join_all()).await {
        let error = waiter.unwrap_err();
        assert!(error.is_busy(), "{error}");
    }
    server.query::<()>("DEL lock:door");
    asked
}

#[tokio::test]
async fn one_poller_for_a_key_and_a_process() {
    let alone = commands(1).await;
    let crowd = commands(50).await;
    assert!(
        (2..60).contains(&alone),
        "{alone} commands in half a second"
    );
    assert!(
        crowd <= alone * 2 + 5,
        "50 waiters send {crowd} commands, one sends {alone}"
    );
}

#[tokio::test]
async fn a_foreign_lock_that_expires_is_had_soon() {
    let server = Server::start();
    let locks = connected(server.url()).await;
    server.query::<()>("SET lock:door somebody PX 400");
    let acquire = locks.lock("door").wait(millis(5000)).acquire();
    let guard = within(millis(400) + NOISE, acquire).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_waiter_that_is_dropped_leaves_no_trace() {
    let server = Server::start();
    let locks = connected(server.url()).await;
    server.query::<()>("SET lock:door somebody PX 60000");
    for _ in 0..3 {
        let waiter = locks.lock("door").wait(millis(20_000));
        let waiting = tokio::time::timeout(millis(150), waiter.acquire());
        assert!(waiting.await.is_err(), "somebody has the lock");
        eventually(NOISE, "only the lock is left", || {
            server.query::<usize>("DBSIZE") == 1
        });
    }
    server.query::<()>("CONFIG RESETSTAT");
    tokio::time::sleep(millis(300)).await;
    assert_eq!(
        server.calls(&["set", "evalsha", "eval"]),
        0,
        "nobody asks any more"
    );
    server.query::<()>("DEL lock:door");
}
