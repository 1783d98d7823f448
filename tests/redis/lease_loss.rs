//! A lease that can no longer be proven ends the body at its next await point, no later than the deadline,
//! and its caller gets `Lost`.

use std::cell::RefCell;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use lock_runtime::{LockError, LockManager, distributed_lock};

use super::fixture::Fixture;
use lock_test_support::manager::connected;
use lock_test_support::proxy::Proxy;
use lock_test_support::server::Server;
use lock_test_support::time::{NOISE, Stopwatch, millis, within};

const TTL: Duration = millis(1200);
/// A renewal is sent after a third of the TTL, plus or minus a tenth.
const NEXT_RENEWAL: Duration = millis(1200 / 3 + 1200 / 30);

/// Records that it was dropped.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[distributed_lock(key = "row", ttl = "1200ms", manager = locks)]
async fn hold(
    locks: &LockManager,
    ended: &AtomicBool,
    inside: tokio::sync::oneshot::Sender<()>,
) -> Result<(), LockError> {
    let _ended = Ended(ended);
    let _ = inside.send(());
    pending().await
}

/// Asserts that a body that never ends is canceled at most `at_most` after `fault`, and that the caller gets
/// `Lost`.
async fn is_cancelled(locks: &LockManager, at_most: Duration, fault: impl FnOnce()) {
    let ended = AtomicBool::new(false);
    let (inside, entered) = tokio::sync::oneshot::channel();
    let call = hold(locks, &ended, inside);
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
    assert!(
        error.is_lost() && !error.is_busy() && !error.is_unavailable(),
        "{error}"
    );
    assert_eq!(error.key(), Some("row"));
    assert!(
        ended.load(Relaxed),
        "the body is dropped before the caller gets the error"
    );
    assert!(took <= at_most + NOISE, "{took:?} after the fault");
}

#[tokio::test]
async fn paused_server_cancels_body() {
    let mut server = Server::start();
    let locks = connected(server.url()).await;
    is_cancelled(&locks, TTL, || server.pause()).await;
    server.resume();
}

#[tokio::test]
async fn killed_server_cancels_body() {
    let mut server = Server::start();
    let locks = connected(server.url()).await;
    is_cancelled(&locks, TTL, || server.kill()).await;
}

#[tokio::test]
async fn server_restarted_without_data_cancels_body() {
    let mut server = Server::start();
    let locks = connected(server.url()).await;
    is_cancelled(&locks, TTL, || server.restart()).await;
}

async fn behind_a_proxy() -> (Server, Proxy, LockManager) {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let locks = connected(proxy.url()).await;
    (server, proxy, locks)
}

#[tokio::test]
async fn cut_connection_cancels_body() {
    let (_server, proxy, locks) = behind_a_proxy().await;
    is_cancelled(&locks, TTL, || proxy.cut()).await;
}

#[tokio::test]
async fn black_holed_connection_cancels_body() {
    let (_server, proxy, locks) = behind_a_proxy().await;
    is_cancelled(&locks, TTL, || proxy.black_hole()).await;
    proxy.heal();
}

/// Renewals arrive and extend the key, but their replies are lost: the lock counts as lost, and renewals
/// stop.
#[tokio::test]
async fn lost_renewal_replies_cancel_body() {
    let (server, proxy, locks) = behind_a_proxy().await;
    is_cancelled(&locks, TTL, || proxy.hold_replies()).await;
    proxy.heal();
    server.until_gone("lock:row", TTL + NOISE);
}

/// The body ends before the loss is noticed: its result is returned.
#[tokio::test]
async fn result_of_finished_body_is_kept() {
    let mut server = Server::start();
    let locks = connected(server.url()).await;
    let run = locks.lock("row").run(async |_| {
        server.kill();
        "done"
    });
    assert_eq!(within(millis(2500), run).await.unwrap(), "done");
}

/// Asserts that a fault for a third of the lease, beginning right before a renewal, does not lose the lock.
async fn is_survived(locks: &LockManager, mut fault: impl FnMut(), mut repair: impl FnMut()) {
    let ttl = millis(3000);
    for _ in 0..5 {
        let watch = Stopwatch::start();
        let run = locks.lock("row").ttl(ttl).run(async |lock| {
            tokio::time::sleep(ttl / 4).await;
            fault();
            tokio::time::sleep(ttl / 3).await;
            repair();
            tokio::time::sleep(ttl).await;
            lock.ensure_valid_for(ttl / 4)
        });
        let survived = within(ttl * 3, run).await.flatten();
        // A machine that stalls this long loses leases.
        if survived.is_ok() || watch.stalled() < ttl / 6 {
            return survived.unwrap();
        }
        repair();
    }
    panic!("the machine stalled in each run");
}

#[tokio::test]
async fn lock_survives_short_cut() {
    let (_server, proxy, locks) = behind_a_proxy().await;
    is_survived(&locks, || proxy.cut(), || proxy.heal()).await;
}

/// The connection is replaced by one that is accepted and never answered.
#[tokio::test]
async fn lock_with_short_lease_survives_connection_that_is_never_answered() {
    let (_server, proxy, locks) = behind_a_proxy().await;
    for ttl in [millis(1500), millis(3000)] {
        let lock = locks.lock("row").ttl(ttl);
        let held = lock.run(async |lock| {
            tokio::time::sleep(ttl / 2).await;
            proxy.swallow_next_connection();
            tokio::time::sleep(ttl * 2).await;
            lock.ensure_valid_for(ttl / 4)
        });
        held.await.unwrap().unwrap();
    }
    proxy.swallow_next_connection();
    let guard = locks
        .lock("row")
        .wait(millis(1500))
        .acquire()
        .await
        .unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn lock_survives_short_black_hole() {
    let (_server, proxy, locks) = behind_a_proxy().await;
    is_survived(&locks, || proxy.black_hole(), || proxy.heal()).await;
}

#[tokio::test]
async fn lock_survives_short_server_pause() {
    let server = Server::start();
    let locks = connected(server.url()).await;
    let server = RefCell::new(server);
    let (pause, resume) = (
        || server.borrow_mut().pause(),
        || server.borrow_mut().resume(),
    );
    is_survived(&locks, pause, resume).await;
}

/// A lock is renewed while it is held, and never after its release.
#[tokio::test]
async fn lock_is_renewed_until_release() {
    let fixture = Fixture::start().await;
    let guard = fixture
        .locks()
        .lock("row")
        .ttl(millis(1500))
        .acquire()
        .await
        .unwrap();
    let token: String = fixture.query("GET lock:row");
    let end = Instant::now() + millis(4500);
    while Instant::now() < end {
        assert_eq!(
            fixture.query::<Option<String>>("GET lock:row").as_ref(),
            Some(&token)
        );
        assert!(guard.is_valid());
        tokio::time::sleep(millis(20)).await;
    }
    guard.release().await.unwrap();
    fixture.query::<()>("CONFIG RESETSTAT");
    tokio::time::sleep(millis(500)).await;
    assert_eq!(fixture.calls(&["pexpire", "evalsha", "eval", "set"]), 0);
}
