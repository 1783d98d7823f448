//! Rows of waiters that have died: at most 2 s for the grant of the first, and 0.2 s for each of them.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::crew::{LONG, fair, managers_with, waits};
use super::dead::{GRANT, behind, behind_on, stand};
use super::ear::Ear;
use super::lua::{Claim, Lua, Names, channel, connect};
use crate::support::manager::connected;
use crate::support::proxy::Proxy;
use crate::support::server::Server;
use crate::support::time::{Stopwatch, eventually, millis, within};
use crate::support::worker::{Worker, arguments};

/// What a row of so many dead waiters costs those behind it at most, on a machine that stood still for so
/// long.
fn most(dead: usize, stalls: &Stopwatch) -> Duration {
    GRANT + millis(200) * dead as u32 + millis(50) + stalls.stalled()
}

fn stopped<T: Fn() + Copy>(test: T, dead: usize) {
    let stalls = Stopwatch::start();
    let stop = |workers: &mut [Worker]| workers.iter().for_each(Worker::pause);
    if let Some((mut line, waited)) = behind(test, dead, stop) {
        let most = most(dead, &stalls);
        println!("{dead} stopped: {waited:?} of {most:?}");
        assert!(waited < most, "{waited:?}, and {most:?} at most");
        // They lost their places, and nothing else.
        for worker in &line.workers {
            worker.resume();
        }
        for worker in &mut line.workers {
            worker.expect("had true true", LONG);
            worker.succeeds(LONG);
        }
    }
}

#[test]
fn one_stopped_waiter_costs_2_s_and_a_fifth() {
    stopped(one_stopped_waiter_costs_2_s_and_a_fifth, 1);
}

#[test]
fn three_stopped_waiters_cost_2_s_and_a_fifth_each() {
    stopped(three_stopped_waiters_cost_2_s_and_a_fifth_each, 3);
}

#[test]
fn eight_stopped_waiters_cost_2_s_and_a_fifth_each() {
    stopped(eight_stopped_waiters_cost_2_s_and_a_fifth_each, 8);
}

/// `PUBLISH` counts it as one that has heard.
#[test]
fn killed_waiters_cost_nothing_while_another_client_listens_to_all_channels() {
    if let Some(arguments) = arguments() {
        return stand(&arguments[0]);
    }
    let server = Server::start();
    let mut listener = UnixStream::connect(server.socket()).unwrap();
    listener.write_all(b"PSUBSCRIBE *\r\n").unwrap();
    let stalls = Stopwatch::start();
    let (_line, waited) = behind_on(
        server,
        killed_waiters_cost_nothing_while_another_client_listens_to_all_channels,
        3,
        |workers| workers.iter_mut().for_each(Worker::kill),
    );
    assert!(waited < millis(1000) + stalls.stalled(), "{waited:?}");
}

/// Their connections stand, and nothing comes through.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_that_are_cut_off_cost_2_s_and_a_fifth_each() {
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
    let stalls = Stopwatch::start();
    proxy.black_hole();
    holder.release().await.unwrap();
    let start = Instant::now();
    let guard = within(LONG, last).await.unwrap().unwrap();
    let (waited, most) = (start.elapsed(), most(4, &stalls));
    assert!(waited < most, "{waited:?}, and {most:?} at most");
    proxy.heal();
    guard.release().await.unwrap();
    dead.iter().for_each(JoinHandle::abort);
    eventually(LONG, "all have left", || server.waiting("door") == 0);
}

/// Places that nobody took back, as a failover may leave them, though their processes are still there.
#[tokio::test]
async fn forgotten_places_cost_a_fifth_of_a_second_together() {
    let server = Server::start();
    server.query::<()>("SET lock:door somebody PX 1000");
    let (lua, names) = (Lua::new(), Names::of("door"));
    let mut connection = connect(&server);
    let tokens = ["a", "b", "c", "d"];
    let _hear_it = Ear::open(&server, &tokens.map(channel));
    for token in tokens {
        let (names, ttl) = (&names, 30_000);
        let claim = Claim { names, token, ttl };
        assert_eq!(lua.wait(&mut connection, &claim, 0).unwrap()[0], 2);
    }
    let locks = connected(server.url()).await;
    let stalls = Stopwatch::start();
    let start = Instant::now();
    let guard = locks.lock("door").wait(LONG).acquire().await.unwrap();
    let waited = start.elapsed();
    // The lease, its turn behind the four, the chance that these are given, and its turn once more.
    let most = millis(1000 + 200 + 200 + 200 + 100) + stalls.stalled();
    assert!(waited < most, "{waited:?}, and {most:?} at most");
    guard.release().await.unwrap();
}
