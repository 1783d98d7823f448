//! The key of a lock outlasts the lease while clients wait, so that the queue is served first.

use lock_runtime::LockManager;

use super::dead_waiters::wait_in_queue;
use super::fixture::{fair, waits};
use super::lua::{Claim, Lua, Names, connect};
use super::script_trace::{GRACE, TTL};
use lock_test_support::manager::connected;
use lock_test_support::pollers::Pollers;
use lock_test_support::server::Server;
use lock_test_support::time::{millis, soon};
use lock_test_support::worker::{Worker, arguments, block_on};

/// A second process waits first, and is stopped before `end` ends the lease that it waits for. The next waiter must
/// acquire the lock before two processes that try all the time.
fn behind_a_stopped_waiter<T: Fn() + Copy>(
    test: T,
    end: impl AsyncFn(&LockManager, &Server, &Worker),
) {
    if let Some(arguments) = arguments() {
        return wait_in_queue(&arguments[0]);
    }
    let server = Server::start();
    block_on(async {
        let connect = || connected(fair(&server.url()));
        let (locks, next) = (connect().await, connect().await);
        let newcomers = [connect().await, connect().await];
        for _ in 0..3 {
            let mut first = Worker::start(test, &[&server.url()]);
            end(&locks, &server, &first).await;
            let waiter = waits(&next, "door");
            let pollers = Pollers::start(newcomers.clone(), |locks| locks.lock("door"));
            let guard = soon(waiter).await.unwrap().unwrap();
            assert_eq!(pollers.holds(), 0, "newcomers came first");
            guard.release().await.unwrap();
            soon(pollers.end()).await;
            first.kill();
            server.until_gone("lock:door");
        }
    });
}

#[test]
fn end_of_a_stopped_waiters_grant_serves_the_queue_before_newcomers() {
    let test = end_of_a_stopped_waiters_grant_serves_the_queue_before_newcomers;
    behind_a_stopped_waiter(test, async |locks, server, first| {
        let holder = locks.lock("door").acquire().await.unwrap();
        server.until_waiting("door", 1);
        first.pause();
        holder.release().await.unwrap();
    });
}

/// The lock is reserved for the stopped waiter, until that counts as dead.
#[test]
fn end_of_a_reservation_serves_the_queue_before_newcomers() {
    let test = end_of_a_reservation_serves_the_queue_before_newcomers;
    behind_a_stopped_waiter(test, async |locks, server, first| {
        let lock = locks.lock("door").ttl(millis(1000)).renew(false);
        std::mem::forget(lock.acquire().await.unwrap());
        server.until_waiting("door", 1);
        first.pause();
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
    server.query::<()>(&format!("SET lock:door {token} PX 300"));
    let claim = |token| Claim {
        names: &names,
        token,
        ttl: TTL,
    };
    let waits = lua.wait(&mut connection, &claim("waiter"), 0).unwrap();
    assert_eq!(waits[0], 2);
    assert!(
        waits[2] <= 300,
        "the waiter is told when the lease ends: {waits:?}"
    );
    let left: u64 = server.query("PTTL lock:door");
    assert!((GRACE..=300 + GRACE).contains(&left), "{left} ms");
    server.until_gone("lock:door");
    server.query::<()>("DEL lock:::queue:door lock:::waiters:door");
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
        server.query::<()>(&format!("SET lock:door {token}+ PX 600"));
        let holder = Claim {
            names: &names,
            token,
            ttl: TTL,
        };
        let mut renew = lua.renew.prepare_invoke();
        renew.key("lock:door").arg(token).arg(TTL);
        if renewed {
            assert_eq!(renew.invoke::<String>(&mut connection).unwrap(), "1");
            let left: u64 = server.query("PTTL lock:door");
            assert!(
                (TTL + GRACE - 100..=TTL + GRACE).contains(&left),
                "{left} ms"
            );
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
