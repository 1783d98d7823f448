//! For a lock that another process holds, one waiter of each process polls, at a low rate.

use std::time::Duration;

use tokio::task::JoinSet;

use lock_test_support::manager::{connected, silent, warmed_up};
use lock_test_support::server::Server;
use lock_test_support::time::{NOISE, eventually, millis, within};
use tokio::time::Instant;

const LONG: Duration = Duration::from_secs(60);

/// Returns the number of commands that `waiters` of one process send in half a second while they wait for a
/// foreign lock.
async fn commands(waiters: usize) -> u64 {
    let server = Server::start();
    let locks = warmed_up(server.url()).await;
    server.query::<()>("SET lock:door other-client PX 60000");
    let mut waiting = JoinSet::new();
    for _ in 0..waiters {
        let lock = locks.lock("door").wait(millis(800));
        waiting.spawn(async move { lock.acquire().await.map(drop) });
    }
    // By now each waiter has found the lock held.
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
async fn fifty_waiters_of_one_process_poll_as_one() {
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
async fn expired_foreign_lock_is_acquired_soon() {
    let server = Server::start();
    let locks = connected(silent(server.url())).await;
    server.query::<()>("SET lock:door other-client PX 400");
    let acquire = locks.lock("door").wait(millis(5000)).acquire();
    let guard = within(millis(400) + NOISE, acquire).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn dropped_waiter_stops_polling_and_leaves_no_keys() {
    let server = Server::start();
    let locks = connected(silent(server.url())).await;
    server.query::<()>("SET lock:door other-client PX 60000");
    for _ in 0..3 {
        let waiter = locks.lock("door").wait(millis(20_000));
        let waiting = tokio::time::timeout(millis(150), waiter.acquire());
        assert!(waiting.await.is_err(), "another client holds the lock");
        eventually("only the lock is left", || server.key_count() == 1);
    }
    server.query::<()>("CONFIG RESETSTAT");
    tokio::time::sleep(millis(300)).await;
    assert_eq!(
        server.calls(&["set", "evalsha", "eval"]),
        0,
        "no waiter polls"
    );
    server.query::<()>("DEL lock:door");
}

/// Waits until processes that wait for one lock send about so many requests a second.
async fn until_polling_at(documented: f64, processes: usize) {
    let server = Server::start();
    let holder = connected(silent(server.url())).await;
    let _held = holder.lock("door").ttl(LONG).acquire().await.unwrap();
    let mut waiting = JoinSet::new();
    for _ in 0..processes {
        let lock = connected(silent(server.url())).await.lock("door");
        waiting.spawn(lock.wait(LONG).acquire());
    }
    server.until_waiting("door", processes);
    // The first in line gets to its lowest rate within a second, on a busy machine later.
    tokio::time::sleep(millis(1000)).await;
    let mut measured = Vec::new();
    for _ in 0..4 {
        server.query::<()>("CONFIG RESETSTAT");
        let clock = Instant::now();
        tokio::time::sleep(millis(4000)).await;
        let calls = server.calls(&["set", "evalsha", "eval"]) as f64;
        let rate = calls / clock.elapsed().as_secs_f64();
        if (0.4..1.4).contains(&(rate / documented)) {
            return;
        }
        measured.push(rate);
    }
    panic!("{measured:?} requests a second");
}

/// The guide's answer to "How many requests does waiting cost?".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_processes_poll_as_often_as_the_guide_says() {
    tokio::join!(until_polling_at(2.6, 1), until_polling_at(7.5, 10));
}
