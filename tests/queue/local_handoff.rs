//! Local handoff: within a process the lock passes between holds without the server, up to the configured
//! limits.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_runtime::{Config, Lock, LockGuard, LockManager};
use tokio::task::{JoinSet, yield_now};

use super::fixture::{LONG, fair, waiter, waits};
use lock_test_support::manager::{connected, silent};
use lock_test_support::proxy::Proxy;
use lock_test_support::server::Server;
use lock_test_support::time::{comes_true, eventually, millis, soon};

/// All commands that concern a lock.
const ALL: [&str; 6] = ["set", "get", "evalsha", "eval", "del", "pexpire"];

/// Local handoff limits that no test reaches.
fn generous(url: &str) -> Config {
    silent(url).local_handoff(100_000, Duration::from_secs(20))
}

#[tokio::test]
async fn local_handoff_sends_no_command() {
    let server = Server::start();
    let locks = connected(generous(&server.url())).await;
    let holder = locks.lock("door").acquire().await.unwrap();
    let mut waiters = JoinSet::new();
    for n in 0..100 {
        let lock = locks.lock("door").wait(LONG);
        waiters.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            assert!(guard.is_valid());
            match n % 2 {
                0 => guard.release().await.unwrap(),
                _ => drop(guard),
            }
        });
        yield_now().await;
    }
    let lock = locks.lock("door").wait(LONG);
    let last = waiter(lock);
    yield_now().await;
    server.query::<()>("CONFIG RESETSTAT");
    holder.release().await.unwrap();
    let last = soon(last).await.unwrap().unwrap();
    assert_eq!(server.calls(&ALL), 0);
    last.release().await.unwrap();
    waiters.join_all().await;
}

/// Hands the lock to a waiter with these options. Returns its guard.
async fn passed(
    locks: &LockManager,
    before: LockGuard,
    with: impl FnOnce(Lock) -> Lock,
) -> LockGuard {
    let next = waiter(with(locks.lock("door").wait(LONG)));
    yield_now().await;
    before.release().await.unwrap();
    soon(next).await.unwrap().unwrap()
}

#[tokio::test]
async fn each_hold_obeys_its_own_max_hold() {
    let server = Server::start();
    let locks = connected(generous(&server.url())).await;
    let guard = locks.lock("door").acquire().await.unwrap();
    server.query::<()>("CONFIG RESETSTAT");

    let short = millis(15_000);
    let guard = passed(&locks, guard, |lock| lock.max_hold(short)).await;
    assert!(guard.remaining() <= short, "{:?}", guard.remaining());
    let guard = passed(&locks, guard, |lock| lock).await;
    assert!(guard.remaining() > short, "{:?}", guard.remaining());
    let guard = passed(&locks, guard, |lock| lock.max_hold(millis(300))).await;
    assert!(guard.remaining() <= millis(300), "{:?}", guard.remaining());
    assert_eq!(server.calls(&["set"]), 0, "the lock was handed off locally");
    let loss = soon(guard.lost()).await;
    assert!(loss.to_string().contains("max_hold"), "{loss}");
    let next = waits(&locks, "door");
    drop(guard);
    let guard = soon(next).await.unwrap().unwrap();
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn hold_without_renewal_ends_after_renewed_hold() {
    let server = Server::start();
    let locks = connected(generous(&server.url())).await;
    let guard = locks.lock("door").acquire().await.unwrap();
    let guard = passed(&locks, guard, |lock| lock.ttl(millis(300)).renew(false)).await;
    let loss = soon(guard.lost()).await;
    assert!(loss.is_lost(), "{loss}");
    drop(guard);
    let guard = soon(locks.lock("door").wait(LONG).acquire()).await.unwrap();
    guard.release().await.unwrap();
}

/// A lock handed to a hold with a short TTL must not keep the previous long lease.
#[tokio::test]
async fn server_lease_follows_ttl_of_next_hold() {
    let server = Server::start();
    let locks = connected(generous(&server.url())).await;
    let guard = locks.lock("door").acquire().await.unwrap();
    let short = millis(12_000);
    let left = || millis(server.query::<u64>("PTTL lock:door"));
    let guard = passed(&locks, guard, |lock| lock.ttl(short)).await;
    eventually("the lease is that of the second hold", || left() <= short);
    let guard = passed(&locks, guard, |lock| lock).await;
    eventually("the lease is that of the third hold", || left() > short);
    let believed = || guard.remaining() > short;
    eventually("the guard knows the new lease", believed);
    guard.release().await.unwrap();
}

/// The server executed the request that shortened the lease, but its reply is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unconfirmed_shorter_lease_is_not_exceeded() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let locks = connected(generous(&proxy.url())).await;
    let guard = locks.lock("door").acquire().await.unwrap();
    let next = waiter(locks.lock("door").wait(LONG).ttl(millis(1000)));
    eventually("the next one waits", || locks.stats().waiting == 1);
    proxy.hold_replies();
    guard.release().await.unwrap();
    let guard = soon(next).await.unwrap().unwrap();
    eventually("the lease is shorter", || {
        server.query::<i64>("PTTL lock:door") <= 1000
    });
    proxy.black_hole();
    let gone = comes_true(|| !server.exists("lock:door"));
    let valid = guard.is_valid();
    proxy.heal();
    drop(guard);
    locks.shutdown().await;
    assert!(
        !gone || !valid,
        "the lock is free on the server, but the guard is valid"
    );
}

/// A lock granted by another process starts with a short lease; the guard still lasts for its TTL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn granted_lock_without_renewal_lasts_its_ttl() {
    let server = Server::start();
    let locks = connected(fair(&server.url())).await;
    let other = connected(fair(&server.url())).await;
    let holder = other.lock("door").acquire().await.unwrap();
    let waiter = waiter(locks.lock("door").wait(LONG).renew(false));
    server.until_waiting("door", 1);
    holder.release().await.unwrap();
    let guard = soon(waiter).await.unwrap().unwrap();
    let lasts = || guard.remaining() > millis(20_000);
    eventually("the lease has its whole length", lasts);
    assert!(server.query::<u64>("PTTL lock:door") > 20_000);
    guard.release().await.unwrap();
}

/// Returns the position at which a waiter of another process is served among twelve local holds.
async fn turn_of_another(config: impl FnOnce(Config) -> Config, body: Duration) -> usize {
    let server = Server::start();
    let locks = connected(config(Config::new(server.url()))).await;
    let other = connected(silent(server.url())).await;
    let holder = locks.lock("door").acquire().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = JoinSet::new();
    let mut wait_in_queue = |locks: &LockManager, name| {
        let (lock, order) = (locks.lock("door").wait(LONG), order.clone());
        waiters.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            order.lock().unwrap().push(name);
            tokio::time::sleep(body).await;
            guard.release().await.unwrap();
        });
    };
    wait_in_queue(&other, "other");
    while server.waiting("door") == 0 {
        tokio::time::sleep(millis(2)).await;
    }
    for _ in 0..12 {
        wait_in_queue(&locks, "own");
        // On this single thread, the spawned task now waits.
        yield_now().await;
    }
    holder.release().await.unwrap();
    soon(waiters.join_all()).await;
    let order = order.lock().unwrap();
    order.iter().position(|name| *name == "other").unwrap()
}

#[tokio::test]
async fn other_process_is_served_after_handoff_count() {
    let often = |config: Config| config.local_handoff(3, LONG);
    let turn = turn_of_another(often, millis(1)).await;
    assert!((1..=3).contains(&turn), "after {turn}");
}

#[tokio::test]
async fn other_process_is_served_after_handoff_time() {
    let long = |config: Config| config.local_handoff(u32::MAX, millis(100));
    let turn = turn_of_another(long, millis(30)).await;
    assert!(turn <= 4, "after {turn}");
}

#[tokio::test]
async fn other_process_is_served_first_without_local_handoff() {
    let never = |config: Config| config.local_handoff(0, LONG);
    assert_eq!(turn_of_another(never, millis(1)).await, 0);
}

/// A waiter of another process that arrives during local handoffs is noticed and served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_waiter_of_other_process_is_served() {
    let server = Server::start();
    let locks = connected(silent(server.url())).await;
    let other = connected(silent(server.url())).await;
    let mut crowd = JoinSet::new();
    for _ in 0..8 {
        let locks = locks.clone();
        crowd.spawn(async move {
            loop {
                let guard = locks.lock("door").wait(LONG).acquire().await.unwrap();
                yield_now().await;
                guard.release().await.unwrap();
            }
        });
    }
    let passed = || locks.stats().acquired_locally > 0;
    eventually("the lock is passed on within the process", passed);
    for _ in 0..30 {
        let next = other.lock("door").wait(LONG).acquire();
        soon(next).await.unwrap().release().await.unwrap();
    }
    crowd.shutdown().await;
    locks.shutdown().await;
}
