//! The key of a lock outlasts the lease while clients wait, so that the queue is served first.

use super::dead_waiters::wait_in_queue;
use super::fixture::{fair, waits};
use super::lua::{Claim, Lua, Names, connect};
use super::script_trace::{GRACE, TTL};
use lock_test_support::manager::connected;
use lock_test_support::pollers::Pollers;
use lock_test_support::server::Server;
use lock_test_support::time::{Timed, patient, soon};
use lock_test_support::worker::{Worker, arguments, block_on};
use std::time::Instant;

/// Ways to end the lease that a stopped waiter waits for.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The stopped waiter is granted the lock, and that grant ends.
    Release,
    /// The lock is reserved for the stopped waiter, until that counts as dead.
    Expiry,
}

/// A second process waits first, and is stopped. The next waiter must acquire the lock before two processes
/// that try all the time: it polls within half a second of the end of the lease.
#[test]
fn queue_behind_a_stopped_waiter_is_served_before_newcomers() {
    let _timed = Timed::start();
    if let Some(arguments) = arguments() {
        return wait_in_queue(&arguments[0]);
    }
    let server = Server::start();
    block_on(async {
        let connect = || connected(patient(fair(&server.url())));
        let (locks, next) = (connect().await, connect().await);
        let newcomers = [connect().await, connect().await];
        for end in [End::Release, End::Expiry, End::Release, End::Expiry] {
            let lock = locks.lock("door").renew(false);
            let mut holder = Some(lock.acquire().await.unwrap());
            let test = queue_behind_a_stopped_waiter_is_served_before_newcomers;
            let mut first = Worker::start(test, &[&server.url()]);
            server.until_waiting("door", 1);
            first.pause();
            let waiter = waits(&next, "door");
            server.until_waiting("door", 2);
            let pollers = Pollers::start(newcomers.clone(), |locks| locks.lock("door"));
            match end {
                End::Release => drop(holder.take()),
                // By its end, the waiter has polled, and knows when that is.
                End::Expiry => server.query::<()>("PEXPIRE lock:door 2500"),
            }
            let guard = soon(waiter).await.unwrap().unwrap();
            assert_eq!(pollers.holds(), 0, "newcomers came first: {end:?}");
            guard.release().await.unwrap();
            soon(pollers.end()).await;
            first.kill();
            drop(holder);
            server.until_gone("lock:door");
        }
    });
}

/// A token of this version, and those of an earlier one and of another client.
const TOKENS: [&str; 3] = [
    "d15710cc89ab8def8123456789abcdef",
    "0123456789ab4def8123456789abcdef",
    "0123456789ab11ef8123456789abcdef",
];

/// Its key does not stay for clients that have gone.
#[test]
fn key_outlasts_the_lease_by_half_a_second() {
    let server = Server::start();
    let (lua, names) = (Lua::new(), Names::of("door"));
    let mut connection = connect(&server);
    let [token, ..] = TOKENS;
    server.query::<()>(&format!("SET lock:door {token} PX {TTL}"));
    let ends = || server.query::<u64>("PEXPIRETIME lock:door");
    let lease = ends();
    let claim = Claim {
        names: &names,
        token: "waiter",
        ttl: TTL,
    };
    let asked = Instant::now();
    let waits = lua.wait(&mut connection, &claim, 0).unwrap();
    assert_eq!(waits[0], 2);
    assert!(
        waits[2] <= TTL as i64,
        "the waiter is told when the lease ends: {waits:?}"
    );
    // The clock goes on while the script runs.
    let late = ends() - (lease + GRACE);
    assert!(late <= 1 + asked.elapsed().as_millis() as u64, "{late} ms");
    server.query::<()>("FLUSHDB");
}

/// Other clients compare the value with their tokens.
#[test]
fn keys_of_other_clients_stay_as_they_are() {
    let server = Server::start();
    let (lua, names) = (Lua::new(), Names::of("door"));
    let mut connection = connect(&server);
    let [_, others @ ..] = TOKENS;
    for token in others {
        server.query::<()>(&format!("SET lock:door {token} PX 20000"));
        let claim = Claim {
            names: &names,
            token: "waiter",
            ttl: TTL,
        };
        assert_eq!(lua.wait(&mut connection, &claim, 0).unwrap()[0], 2);
        assert_eq!(server.query::<String>("GET lock:door"), token);
        assert!(server.query::<u64>("PTTL lock:door") <= 20_000);
        assert!(!lua.cancel(&mut connection, &claim, 0).unwrap());
        server.query::<()>("DEL lock:door");
    }
}

/// Whether the server ended the lease or the client did, the holder has lost the lock.
#[test]
fn holder_has_lost_the_lock_at_the_end_of_its_lease() {
    let server = Server::start();
    let (lua, names) = (Lua::new(), Names::of("door"));
    let mut connection = connect(&server);
    let [token, ..] = TOKENS;
    for renewed in [false, true] {
        server.query::<()>(&format!("SET lock:door {token}+ PX {TTL}"));
        let holder = Claim {
            names: &names,
            token,
            ttl: TTL,
        };
        let mut renew = lua.renew.prepare_invoke();
        renew.key("lock:door").arg(token).arg(TTL);
        if renewed {
            let before = server.query::<u64>("PEXPIRETIME lock:door");
            assert_eq!(renew.invoke::<String>(&mut connection).unwrap(), "1");
            let after = server.query::<u64>("PEXPIRETIME lock:door");
            assert!(after >= before + GRACE, "{before}, then {after}");
            server.query::<()>("PEXPIRE lock:door 400");
        } else {
            server.query::<()>("PEXPIRE lock:door 499");
        }
        assert_eq!(renew.invoke::<String>(&mut connection).unwrap(), "0");
        assert!(!lua.release(&mut connection, &holder).unwrap());
        let mut fence = lua.fence.prepare_invoke();
        fence.key("lock:door").key("lock:::fence").arg(token);
        assert_eq!(fence.invoke::<Option<u64>>(&mut connection).unwrap(), None);
        server.until_gone("lock:door");
    }
}
