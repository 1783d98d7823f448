//! Consecutive dead waiters delay others by at most 2 s for the first one's grant and 0.2 s for each waiter.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::dead_waiters::{GRANT, behind, behind_on, wait_in_queue};
use super::fixture::{LONG, fair, managers_with, waits};
use super::lua::{Claim, Lua, Names, channel, connect};
use super::subscription::Subscription;
use lock_test_support::manager::connected;
use lock_test_support::proxy::Proxy;
use lock_test_support::server::Server;
use lock_test_support::time::{Timed, eventually, millis, soon};
use lock_test_support::worker::{Worker, arguments};

/// Returns the longest delay that `dead` consecutive dead waiters may cause.
fn most(dead: usize) -> Duration {
    GRANT + millis(200) * dead as u32 + millis(50)
}

fn stopped<T: Fn() + Copy>(test: T, dead: usize) {
    let _timed = Timed::start();
    let stop = |workers: &mut [Worker]| workers.iter().for_each(Worker::pause);
    if let Some((mut line, waited)) = behind(test, dead, stop) {
        let most = most(dead);
        println!("{dead} stopped: {waited:?} of {most:?}");
        assert!(waited < most, "{waited:?}, and {most:?} at most");
        // The stopped waiters lost their queue entries, and nothing else.
        for worker in &line.workers {
            worker.resume();
        }
        for worker in &mut line.workers {
            worker.expect("had Ok(()) Ok(())");
            worker.succeeds();
        }
    }
}

#[test]
fn one_stopped_waiter_delays_others_by_2_2_s() {
    stopped(one_stopped_waiter_delays_others_by_2_2_s, 1);
}

#[test]
fn three_stopped_waiters_delay_others_by_2_6_s() {
    stopped(three_stopped_waiters_delay_others_by_2_6_s, 3);
}

#[test]
fn eight_stopped_waiters_delay_others_by_3_6_s() {
    stopped(eight_stopped_waiters_delay_others_by_3_6_s, 8);
}

/// `PUBLISH` counts the pattern listener as a receiver.
#[test]
fn killed_waiters_are_skipped_despite_pattern_listener() {
    if let Some(arguments) = arguments() {
        return wait_in_queue(&arguments[0]);
    }
    let server = Server::start();
    let mut listener = UnixStream::connect(server.socket()).unwrap();
    listener.write_all(b"PSUBSCRIBE *\r\n").unwrap();
    let _timed = Timed::start();
    let (_line, waited) = behind_on(
        server,
        killed_waiters_are_skipped_despite_pattern_listener,
        3,
        |workers| workers.iter_mut().for_each(Worker::kill),
    );
    assert!(waited < millis(1000), "{waited:?}");
}

/// Their connections stay open but carry no data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn black_holed_waiters_delay_others_by_2_s_and_a_fifth_each() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let locks = connected(fair(&server.url())).await;
    let last = connected(fair(&server.url())).await;
    let holder = locks.lock("door").acquire().await.unwrap();
    let cut_off = managers_with(4, || fair(&proxy.url())).await;
    let mut dead = Vec::new();
    for (before, locks) in cut_off.iter().enumerate() {
        dead.push(waits(locks, "door"));
        server.until_waiting("door", before + 1);
    }
    let last = waits(&last, "door");
    server.until_waiting("door", 5);
    let _timed = Timed::start();
    proxy.black_hole();
    holder.release().await.unwrap();
    let start = Instant::now();
    let guard = soon(last).await.unwrap().unwrap();
    let (waited, most) = (start.elapsed(), most(4));
    assert!(waited < most, "{waited:?}, and {most:?} at most");
    proxy.heal();
    guard.release().await.unwrap();
    dead.iter().for_each(JoinHandle::abort);
    eventually("the queue is empty", || server.waiting("door") == 0);
    // A lock granted meanwhile is released through the proxy.
    for locks in cut_off {
        soon(locks.shutdown()).await;
    }
}

/// Stale queue entries, as a failover may leave them, whose processes are still subscribed.
#[tokio::test]
async fn stale_queue_entries_delay_waiter_by_a_fifth_of_a_second() {
    let server = Server::start();
    server.query::<()>("SET lock:door other-client PX 1000");
    let (lua, names) = (Lua::new(), Names::of("door"));
    let mut connection = connect(&server);
    let tokens = ["a", "b", "c", "d"];
    let _hear_it = Subscription::open(&server, &tokens.map(channel));
    for token in tokens {
        let (names, ttl) = (&names, 30_000);
        let claim = Claim { names, token, ttl };
        assert_eq!(lua.wait(&mut connection, &claim, 0).unwrap()[0], 2);
    }
    let locks = connected(server.url()).await;
    let _timed = Timed::start();
    let start = Instant::now();
    let guard = locks.lock("door").wait(LONG).acquire().await.unwrap();
    let waited = start.elapsed();
    // The lease, its poll behind the four, the time the woken entries have to respond, and its next poll.
    let most = millis(1000 + 200 + 200 + 200 + 100);
    assert!(waited < most, "{waited:?}, and {most:?} at most");
    guard.release().await.unwrap();
}
