//! The lease of a lock that was granted to a waiter or handed off within the process, while its renewals
//! fail, get lost or are answered late.

use std::time::{Duration, Instant};

use lock_runtime::{Config, LockGuard, LockManager};

use super::fixture::{LONG, fair, waiter};
use lock_test_support::manager::connected;
use lock_test_support::proxy::Proxy;
use lock_test_support::server::Server;
use lock_test_support::time::{Timed, comes_true_within, eventually, millis, soon};

/// TTLs of the granted locks: the default, a longer one, and one far longer than a grant.
const TTLS: [Duration; 3] = [millis(30_000), millis(60_000), millis(600_000)];

/// Returns locks that were just granted to waiters, so that their leases are short.
async fn granted(server: &Server, locks: &LockManager, each: usize) -> Vec<LockGuard> {
    let holder = connected(fair(&server.url())).await;
    let (mut held, mut waiters) = (Vec::new(), Vec::new());
    for (n, ttl) in TTLS.iter().enumerate() {
        for m in 0..each {
            let key = format!("door:{n}:{m}");
            held.push(holder.lock(&*key).acquire().await.unwrap());
            waiters.push(waiter(locks.lock(&*key).ttl(*ttl).wait(LONG)));
            server.until_waiting(&key, 1);
        }
    }
    drop(held);
    let mut guards = Vec::new();
    for waiter in waiters {
        guards.push(soon(waiter).await.unwrap().unwrap());
    }
    let left = |guard: &LockGuard| guard.remaining() <= millis(2000);
    assert!(guards.iter().all(left), "a grant lasts 2 s");
    guards
}

/// Waits until `left` remains of the lease that ends first.
async fn until_left(guards: &[LockGuard], left: Duration) {
    let first = guards.iter().map(LockGuard::remaining).min().unwrap();
    tokio::time::sleep(first.saturating_sub(left)).await;
}

/// Waits until each lock either has a lease of its TTL or is lost. Returns the keys of the lost ones.
async fn lost(guards: &[LockGuard]) -> Vec<String> {
    let renewed = |guard: &LockGuard| guard.remaining() > millis(15_000);
    let ended = |guard: &LockGuard| !guard.is_valid();
    let settled = async {
        while !guards.iter().all(|guard| renewed(guard) || ended(guard)) {
            tokio::time::sleep(millis(10)).await;
        }
    };
    soon(settled).await;
    let lost = guards.iter().filter(|guard| ended(guard));
    lost.map(|guard| guard.key().to_owned()).collect()
}

/// Grants locks, harms the network or the server until all leases are settled, and asserts that none is lost.
async fn none_is_lost(harm: impl AsyncFn(&Server, &Proxy, &[LockGuard])) {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let locks = connected(fair(&proxy.url())).await;
    let guards = granted(&server, &locks, 50).await;
    let (lost, ()) = tokio::join!(lost(&guards), harm(&server, &proxy, &guards));
    proxy.heal();
    drop(guards);
    locks.shutdown().await;
    assert_eq!(lost.len(), 0, "of 150");
}

/// The server is unavailable when the first renewal is due, and recovers 1.16 s before the leases end.
async fn away(harm: impl Fn(&Proxy), proxy: &Proxy, guards: &[LockGuard]) {
    until_left(guards, millis(1160 + 270)).await;
    harm(proxy);
    until_left(guards, millis(1160)).await;
    proxy.heal();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn granted_lock_survives_short_outage() {
    let _timed = Timed::start();
    for harm in [Proxy::cut, Proxy::black_hole] {
        none_is_lost(async |_, proxy, guards| away(harm, proxy, guards).await).await;
    }
}

/// The connection stays dead; only a new one works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn granted_lock_survives_silent_connection() {
    let _timed = Timed::start();
    none_is_lost(async |_, proxy, _| proxy.strand()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn granted_lock_survives_connections_closed_every_20_ms() {
    let _timed = Timed::start();
    none_is_lost(async |server, _, guards| {
        let short = |guard: &LockGuard| guard.is_valid() && guard.remaining() < millis(2000);
        while guards.iter().any(short) {
            let start = Instant::now();
            server.query::<u64>("CLIENT KILL TYPE normal SKIPME yes");
            // On a busy machine reconnecting takes long.
            eventually("the client reconnects", || server.connections() > 0);
            tokio::time::sleep(millis(20) + 2 * start.elapsed()).await;
        }
    })
    .await;
}

/// The lock is handed from a long TTL to a short one and back to a long one while the reply to a renewal of
/// the first is in flight. A renewal of the second follows, and its reply arrives too late.
#[tokio::test]
async fn late_renewal_reply_cannot_extend_shorter_lease() {
    let (long, short) = (millis(6000), millis(800));
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let config = Config::new(proxy.url()).local_handoff(100_000, LONG);
    let locks = connected(config).await;
    let lock = |ttl| locks.lock("door").ttl(ttl).wait(LONG);
    let left = || Duration::from_millis(server.query::<i64>("PTTL lock:door").unsigned_abs());
    let first = lock(long).acquire().await.unwrap();
    let second = waiter(lock(short));
    tokio::task::yield_now().await;
    let third = waiter(lock(long));
    tokio::task::yield_now().await;
    eventually("the first renewal is due soon", || left() < millis(4400));
    proxy.delay(millis(60));
    eventually("the renewal is executed", || left() > millis(5000));
    drop(first);
    let second = soon(second).await.unwrap().unwrap();
    // The renewal of the second is in flight, behind the first.
    tokio::time::sleep(millis(15)).await;
    drop(second);
    let third = soon(third).await.unwrap().unwrap();
    comes_true_within(millis(800), || left() <= short);
    proxy.hold_requests();
    let gone = comes_true_within(2 * short, || !server.exists("lock:door"));
    let believed = third.remaining();
    proxy.heal();
    drop(third);
    locks.shutdown().await;
    assert!(
        !gone || believed.is_zero(),
        "the lock is free on the server, but the guard has {believed:?} left"
    );
}
