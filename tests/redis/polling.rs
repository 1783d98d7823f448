//! For a lock that another process holds, one waiter of each process polls, at a low rate.

use std::thread;
use std::time::Duration;

use tokio::task::JoinSet;

use lock_test_support::manager::{connected, silent, warmed_up};
use lock_test_support::server::Server;
use lock_test_support::time::{PATIENCE, Timed, eventually, millis, patient, soon};
use tokio::time::Instant;

const LONG: Duration = Duration::from_secs(60);

/// Lets the callers of one process wait for a lock that another client holds.
async fn foreign_lock_with(waiters: usize) -> (Server, JoinSet<()>) {
    let server = Server::start();
    let locks = warmed_up(patient(server.url())).await;
    server.query::<()>("SET lock:door other-client");
    let mut waiting = JoinSet::new();
    for _ in 0..waiters {
        let lock = locks.lock("door").wait(LONG);
        waiting.spawn(async move { drop(lock.acquire().await.unwrap()) });
    }
    let all_wait = || locks.stats().waiting == waiters as u64;
    eventually("all have found the lock held", all_wait);
    (server, waiting)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_waiters_of_one_process_poll_as_one() {
    let (alone, one) = foreign_lock_with(1).await;
    let (crowded, fifty) = foreign_lock_with(50).await;
    let commands = |server: &Server| server.calls(&["set", "evalsha", "eval", "get", "pttl"]);
    let before = [&alone, &crowded].map(commands);
    eventually("one waiter polls", || commands(&alone) >= before[0] + 5);
    let [one_sent, fifty_sent] = [&alone, &crowded].map(commands);
    let (one_sent, fifty_sent) = (one_sent - before[0], fifty_sent - before[1]);
    assert!(
        fifty_sent < one_sent * 10,
        "50 waiters send {fifty_sent} commands, one sends {one_sent}"
    );
    for (server, waiting) in [(alone, one), (crowded, fifty)] {
        server.query::<()>("DEL lock:door");
        soon(waiting.join_all()).await;
    }
}

#[tokio::test]
async fn expired_foreign_lock_is_acquired() {
    let server = Server::start();
    let locks = connected(silent(server.url())).await;
    server.query::<()>("SET lock:door other-client PX 400");
    let guard = locks.lock("door").wait(PATIENCE).acquire().await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn dropped_waiter_stops_polling_and_leaves_no_keys() {
    let server = Server::start();
    let locks = connected(silent(server.url())).await;
    server.query::<()>("SET lock:door other-client PX 60000");
    for _ in 0..3 {
        let waiter = locks.lock("door").wait(LONG);
        let waiting = tokio::time::timeout(millis(150), waiter.acquire());
        assert!(waiting.await.is_err(), "another client holds the lock");
        eventually("only the lock is left", || server.key_count() == 1);
    }
    eventually("no waiter polls", || {
        server.query::<()>("CONFIG RESETSTAT");
        thread::sleep(millis(700));
        server.calls(&["set", "evalsha", "eval"]) == 0
    });
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
    let _timed = Timed::start();
    tokio::join!(until_polling_at(2.6, 1), until_polling_at(7.5, 10));
}
