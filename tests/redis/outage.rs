//! While the server is away nobody waits longer than asked for; when it's back, all is well soon.

use std::time::Instant;

use lock_runtime::LockError;

use crate::support::manager::connected;
use crate::support::server::Server;
use crate::support::time::{NOISE, Stopwatch, eventually, millis, within};

async fn away_and_back(away: fn(&mut Server), back: fn(&mut Server)) {
    let mut server = Server::start();
    let locks = connected(server.url()).await;
    for _ in 0..2 {
        locks
            .lock("row")
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
        away(&mut server);
        // Once when nobody knows yet, once when everybody does.
        for _ in 0..2 {
            let start = Stopwatch::start();
            let error = locks
                .lock("row")
                .wait(millis(1000))
                .acquire()
                .await
                .unwrap_err();
            let took = start.elapsed();
            assert!(error.is_unavailable() && !error.is_busy(), "{error}");
            assert_eq!(error.key(), Some("row"));
            assert!(took < millis(1500), "{took:?}");
        }
        back(&mut server);
        let again = locks.lock("row").wait(millis(1000)).acquire();
        let guard = within(millis(1000), again).await.unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn server_killed_and_started_again() {
    away_and_back(Server::kill, Server::restart).await;
}

#[tokio::test]
async fn server_frozen_and_thawed() {
    away_and_back(Server::pause, Server::resume).await;
}

/// Who waits when the server goes away is served when it comes back in time.
#[tokio::test]
async fn a_waiter_outlives_a_restart() {
    let mut server = Server::start();
    server.query::<()>("SET lock:row somebody PX 60000");
    let locks = connected(server.url()).await;
    let waiter = locks.lock("row").wait(millis(20_000));
    let waiter = tokio::spawn(async move { waiter.acquire().await });
    tokio::time::sleep(millis(200)).await;
    server.kill();
    tokio::time::sleep(millis(200)).await;
    assert!(!waiter.is_finished());
    server.restart();
    let guard = within(millis(3000), waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// What a frozen server has been sent it does when it is back: only then does the ttl begin.
#[tokio::test]
async fn an_acquisition_that_is_carried_out_late_leaves_no_lock() {
    let ttl = millis(4000);
    let mut server = Server::start();
    let locks = connected(server.url()).await;
    let set = server.calls(&["set"]);
    server.pause();
    let start = Instant::now();
    let lock = locks.lock("row").ttl(ttl).wait(millis(300));
    assert!(lock.acquire().await.unwrap_err().is_unavailable());
    let frozen = ttl + millis(500);
    tokio::time::sleep(frozen.saturating_sub(start.elapsed())).await;
    server.resume();
    eventually(NOISE, "it is carried out", || server.calls(&["set"]) > set);
    server.until_gone("lock:row", ttl / 2);
}

/// Neither releases nor those that wait need longer than their ttl.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_takes_no_longer_than_the_ttl_while_the_server_is_away() {
    let ttl = millis(1000);
    let mut server = Server::start();
    let locks = connected(server.url()).await;
    server.query::<()>("SET lock:taken somebody");
    let held = locks.lock("row").ttl(ttl).acquire().await.unwrap();
    let waiter = locks.lock("taken").ttl(ttl).wait(millis(20_000));
    let waiter = tokio::spawn(waiter.acquire());
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
}

/// An empty script cache is nobody's problem.
#[tokio::test]
async fn scripts_may_be_flushed() {
    let server = Server::start();
    let locks = connected(server.url()).await;
    for _ in 0..3 {
        server.query::<()>("SCRIPT FLUSH");
        let guard = locks.lock("row").ttl(millis(1500)).acquire().await.unwrap();
        let token = guard.fencing_token().await.unwrap();
        assert!(token > 0);
        server.query::<()>("SCRIPT FLUSH");
        tokio::time::sleep(millis(2000)).await;
        assert!(guard.is_valid(), "it was renewed");
        server.query::<()>("SCRIPT FLUSH");
        guard.release().await.unwrap();
        assert!(!server.exists("lock:row"));
    }
}

#[tokio::test]
async fn connections_may_be_closed_by_the_server() {
    let server = Server::start();
    let locks = connected(server.url()).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    for n in 0..5 {
        assert!(server.query::<u64>("CLIENT KILL TYPE normal SKIPME yes") > 0);
        let other = locks
            .lock(format!("other:{n}"))
            .wait(millis(1000))
            .acquire();
        within(millis(1000), other)
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    }
    guard.release().await.unwrap();
    // One of the process, and one of this runtime.
    let left = server.connections();
    assert!((1..=2).contains(&left), "{left} connections");
}

/// Nothing new can be written, but what is held is kept and released.
#[tokio::test]
async fn a_full_server_still_renews_and_releases() {
    let server = Server::start();
    let locks = connected(server.url()).await;
    let guard = locks.lock("row").ttl(millis(1500)).acquire().await.unwrap();
    server.query::<()>("CONFIG SET maxmemory 1");
    let refused = locks
        .lock("other")
        .wait(millis(200))
        .acquire()
        .await
        .unwrap_err();
    assert!(refused.is_unavailable(), "{refused}");
    tokio::time::sleep(millis(2000)).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    assert!(!server.exists("lock:row"));
}

/// As after a failover: no lock is had there, and soon after it's back in charge all is well.
#[tokio::test]
async fn a_server_that_may_not_write_is_unavailable() {
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
    let waiter = locks.lock("row").wait(millis(10_000));
    let waiter = tokio::spawn(async move { waiter.acquire().await });
    tokio::time::sleep(millis(100)).await;
    server.query::<()>("REPLICAOF NO ONE");
    within(millis(1000), waiter)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}
