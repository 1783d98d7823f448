//! A lease that can no longer be proven ends the body no later than the deadline, and its caller gets `Lost`. An
//! outage that is shorter costs no lock: what the server granted is on its disk.

use std::future::pending;
use std::time::{Duration, Instant};

use lock_runtime::LockManager;

use super::fixture::behind_a_proxy;
use lock_test_support::manager::connected;
use lock_test_support::postgres::Postgres;
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{NOISE, Stopwatch, millis, patient, within};

const TTL: Duration = millis(1200);
/// A renewal is sent after a third of the TTL, plus or minus a tenth.
const NEXT_RENEWAL: Duration = millis(1200 / 3 + 1200 / 30);

/// Asserts that a body that never ends is canceled at most a TTL after `fault`, and that the caller gets `Lost`.
async fn is_canceled(locks: &LockManager, fault: impl FnOnce()) {
    let (inside, entered) = tokio::sync::oneshot::channel();
    let call = locks.lock("row").ttl(TTL).run(async |_| {
        let _ = inside.send(());
        pending::<()>().await
    });
    let fault = async {
        within(NOISE, entered).await.unwrap();
        // Past a renewal, so that the lease has been renewed.
        tokio::time::sleep(NEXT_RENEWAL + millis(100)).await;
        let start = Stopwatch::start();
        fault();
        start
    };
    let (result, start) = within(TTL * 3 + NOISE * 2, async { tokio::join!(call, fault) }).await;
    let took = start.elapsed();
    let error = result.unwrap_err();
    assert!(error.is_lost(), "{error}");
    assert_eq!(error.key(), Some("row"));
    assert!(took <= TTL + NOISE, "{took:?} after the fault");
}

#[tokio::test]
async fn paused_server_cancels_body() {
    let mut server = Postgres::start();
    let locks = connected(server.url()).await;
    is_canceled(&locks, || server.pause()).await;
    server.resume();
}

#[tokio::test]
async fn killed_server_cancels_body() {
    let mut server = Postgres::start();
    let locks = connected(server.url()).await;
    is_canceled(&locks, || server.kill()).await;
}

#[tokio::test]
async fn cut_or_silent_network_cancels_body() {
    for fault in [Proxy::cut, Proxy::black_hole, Proxy::hold_replies] {
        let (server, proxy, locks) = behind_a_proxy().await;
        is_canceled(&locks, || fault(&proxy)).await;
        proxy.heal();
        server.until_gone("row", TTL + NOISE);
    }
}

#[tokio::test]
async fn deleted_or_stolen_row_cancels_body() {
    for steal in [false, true] {
        let server = Postgres::start();
        let locks = connected(server.url()).await;
        is_canceled(&locks, || match steal {
            false => server.delete_lock("row"),
            true => server.steal("row", TTL),
        })
        .await;
    }
}

/// A crash and a restart within the lease: the holder keeps the lock, and no other caller gets it.
#[tokio::test]
async fn short_crash_of_the_server_costs_no_lock() {
    let ttl = millis(4000);
    let mut server = Postgres::start();
    let locks = connected(patient(server.url())).await;
    let other = connected(patient(server.url())).await;
    let watch = Stopwatch::start();
    let guard = locks.lock("row").ttl(ttl).acquire().await.unwrap();
    server.kill();
    server.restart();
    let start = Instant::now();
    while start.elapsed() < ttl + millis(500) {
        let stolen = other.lock("row").wait(millis(200)).acquire().await;
        assert!(stolen.is_err(), "two callers hold the lock");
    }
    assert!(
        guard.is_valid() || watch.stalled() > millis(500),
        "the lock was renewed"
    );
    guard.release().await.unwrap();
}

/// The holder's process cannot reach the server any more. Another one gets the lock when the lease has ended, with
/// a greater token.
#[tokio::test]
async fn expired_lock_is_taken_over() {
    let (server, proxy, locks) = behind_a_proxy().await;
    let other = connected(server.url()).await;
    let guard = locks.lock("row").ttl(TTL).acquire().await.unwrap();
    let first = guard.fencing_token().await.unwrap();
    proxy.black_hole();
    let watch = Stopwatch::start();
    // The last renewal was at most a third of the TTL ago.
    let soonest = Instant::now() + TTL / 2;
    let waiter = other.lock("row").wait(millis(10_000)).acquire();
    let taken = within(TTL + NOISE, waiter).await.unwrap();
    assert!(Instant::now() > soonest, "the lock was held");
    assert!(watch.elapsed() < TTL + NOISE);
    assert!(!guard.is_valid(), "the first holder knows");
    assert!(taken.fencing_token().await.unwrap() > first);
    proxy.heal();
    let lost = guard.release().await.unwrap_err();
    assert!(lost.is_lost(), "{lost}");
    assert!(taken.is_valid() && server.is_held("row"));
    taken.release().await.unwrap();
}

/// A statement that the network delays past the lease gives no client two leases.
#[tokio::test]
async fn renewal_that_arrives_late_revives_no_lease() {
    let (server, proxy, locks) = behind_a_proxy().await;
    let other = connected(server.url()).await;
    let guard = locks.lock("row").ttl(TTL).acquire().await.unwrap();
    proxy.hold_requests();
    let taken = within(
        TTL + NOISE * 2,
        other.lock("row").wait(millis(10_000)).acquire(),
    );
    let taken = taken.await.unwrap();
    // The renewal of the first holder arrives now.
    proxy.heal();
    let lost = guard.release().await.unwrap_err();
    assert!(lost.is_lost(), "{lost}");
    tokio::time::sleep(TTL).await;
    assert!(taken.is_valid());
    taken.release().await.unwrap();
}
