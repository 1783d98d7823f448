//! Consecutive dead waiters delay others by at most 2 s for the first one's grant and 0.2 s for each waiter.

use std::time::Instant;

use super::dead_waiters::{GRANT, behind_stopped, wait_in_queue};
use super::fixture::LONG;
use super::lua::{Claim, Lua, Names, channel, connect};
use super::subscription::Subscription;
use lock_test_support::manager::connected;
use lock_test_support::server::Server;
use lock_test_support::time::{NOISE, Timed, millis};
use lock_test_support::worker::{Worker, arguments};

/// Asserts that `dead` consecutive waiters that are stopped delay the next one by no more than they may.
fn stopped<T: Fn() + Copy>(test: T, dead: usize) {
    if let Some(arguments) = arguments() {
        return wait_in_queue(&arguments[0]);
    }
    let server = Server::start();
    let (mut workers, waited) = behind_stopped(&server, test, dead);
    let most = GRANT + millis(200) * dead as u32;
    println!("{dead} stopped: {waited:?} of {most:?}");
    assert!(waited <= most + NOISE, "{waited:?}, and {most:?} at most");
    assert!(
        waited > GRANT / 2,
        "{waited:?}: the lock was never granted to a stopped waiter"
    );
    // Another client holds the lock: the stopped waiters lost their queue entries, and know that they do not
    // hold it.
    server.query::<()>("SET lock:door other-client");
    workers.iter().for_each(Worker::resume);
    server.until_waiting("door", dead);
    for worker in &workers {
        let event = worker.event(millis(50));
        assert_eq!(event, None, "a resumed waiter holds the lock");
    }
    server.query::<()>("DEL lock:door");
    for worker in &mut workers {
        worker.expect("had Ok(()) Ok(())");
        worker.succeeds();
    }
}

#[test]
fn stopped_waiter_delays_others_by_2_2_s() {
    let _timed = Timed::start();
    stopped(stopped_waiter_delays_others_by_2_2_s, 1);
}

#[test]
fn eight_stopped_waiters_delay_others_by_3_6_s() {
    let _timed = Timed::start();
    stopped(eight_stopped_waiters_delay_others_by_3_6_s, 8);
}

/// Stale queue entries, as a failover may leave them, whose processes are still subscribed.
#[tokio::test]
async fn stale_queue_entries_delay_waiter_by_a_fifth_of_a_second() {
    let _timed = Timed::start();
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
    let start = Instant::now();
    let guard = locks.lock("door").wait(LONG).acquire().await.unwrap();
    let waited = start.elapsed();
    // The lease, its poll behind the four, the time the woken entries have to respond, and its next poll.
    let most = millis(1000 + 200 + 200 + 200);
    assert!(waited <= most + NOISE, "{waited:?}, and {most:?} at most");
    guard.release().await.unwrap();
}
