//! A lease that can no longer be proven ends the body at its next await point, no later than the deadline,
//! and its caller gets `Lost`.

use std::cell::RefCell;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use lock_runtime::{LockError, LockManager, OnLost, distributed_lock};
use tokio::task::yield_now;

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
async fn deleted_key_cancels_body() {
    let fixture = Fixture::start().await;
    is_cancelled(fixture.locks(), NEXT_RENEWAL, || {
        fixture.query("DEL lock:row")
    })
    .await;
}

#[tokio::test]
async fn stolen_key_cancels_body_and_is_left_unchanged() {
    let fixture = Fixture::start().await;
    is_cancelled(fixture.locks(), NEXT_RENEWAL, || {
        fixture.query("SET lock:row thief PX 60000")
    })
    .await;
    fixture.locks().shutdown().await;
    assert_eq!(fixture.query::<String>("GET lock:row"), "thief");
    let left: u64 = fixture.query("PTTL lock:row");
    assert!(left > 50_000, "the thief's lease is {left} ms");
    fixture.query::<()>("DEL lock:row");
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

/// A guard is never valid after its TTL. This bound is exact and allows for no noise.
#[tokio::test]
async fn guard_is_never_valid_after_ttl() {
    let fixture = Fixture::start().await;
    for ttl in [millis(150), millis(400)] {
        let lock = fixture.locks().lock("row").ttl(ttl).renew(false);
        let guard = lock.acquire().await.unwrap();
        let had = Instant::now();
        let margin = ttl / 100 + millis(2);
        assert!(guard.remaining() <= ttl - margin, "{:?}", guard.remaining());
        // The time is taken before the check, so a stalled thread cannot move it back.
        let mut valid_at = Duration::ZERO;
        loop {
            let looked_at = had.elapsed();
            if !guard.is_valid() {
                break;
            }
            valid_at = looked_at;
            yield_now().await;
        }
        assert!(valid_at <= ttl - margin, "valid after {valid_at:?}");
        assert_eq!(guard.remaining(), Duration::ZERO);
        assert!(
            guard
                .ensure_valid_for(Duration::ZERO)
                .unwrap_err()
                .is_lost()
        );
        assert!(within(NOISE, guard.lost()).await.is_lost());
        assert!(guard.release().await.unwrap_err().is_lost());
    }
}

#[tokio::test]
async fn ensure_valid_for_rejects_longer_duration_and_keeps_lock() {
    let fixture = Fixture::start().await;
    let lock = fixture.locks().lock("row").ttl(millis(5000)).renew(false);
    let guard = lock.acquire().await.unwrap();
    guard.ensure_valid_for(millis(2000)).unwrap();
    assert!(guard.ensure_valid_for(millis(5000)).is_err());
    assert!(guard.is_valid(), "the check does not lose the lock");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn body_without_renewal_ends_after_ttl() {
    let fixture = Fixture::start().await;
    let start = Instant::now();
    let run = fixture.locks().lock("row").ttl(millis(300)).renew(false);
    let result = within(
        millis(300) + NOISE,
        run.run(async |_| pending::<()>().await),
    )
    .await;
    assert!(result.unwrap_err().is_lost());
    assert!(start.elapsed() >= millis(250), "{:?}", start.elapsed());
}

#[tokio::test]
async fn renewal_ends_at_max_hold() {
    let fixture = Fixture::start().await;
    let start = Instant::now();
    let run = fixture
        .locks()
        .lock("row")
        .ttl(millis(300))
        .max_hold(millis(1000));
    let result = within(
        millis(1000) + NOISE,
        run.run(async |_| pending::<()>().await),
    )
    .await;
    assert!(result.unwrap_err().is_lost());
    assert!(start.elapsed() >= millis(900), "{:?}", start.elapsed());
    fixture.until_gone("lock:row", NOISE);
}

#[distributed_lock(key = "row", ttl = "600ms", on_lost = "continue", guard = lock, manager = locks)]
async fn goes_on(locks: &LockManager, server: &Server) -> Result<&'static str, LockError> {
    assert!(lock.is_valid());
    server.query::<()>("SET lock:row thief PX 60000");
    let lost = within(millis(600) + NOISE, lock.lost()).await;
    assert!(lost.is_lost());
    assert!(!lock.is_valid());
    assert_eq!(lock.remaining(), Duration::ZERO);
    assert!(lock.ensure_valid_for(Duration::ZERO).unwrap_err().is_lost());
    assert!(lock.fencing_token().await.unwrap_err().is_lost());
    tokio::time::sleep(millis(50)).await;
    Ok("done")
}

#[tokio::test]
async fn continue_on_lost_keeps_body_running_with_invalid_guard() {
    let fixture = Fixture::start().await;
    assert_eq!(goes_on(fixture.locks(), &fixture).await.unwrap(), "done");
    assert_eq!(fixture.query::<String>("GET lock:row"), "thief");

    fixture.query::<()>("DEL lock:row");
    let run = fixture
        .locks()
        .lock("row")
        .ttl(millis(300))
        .renew(false)
        .on_lost(OnLost::Continue);
    let valid = run
        .run(async |lock| {
            lock.lost().await;
            yield_now().await;
            lock.is_valid()
        })
        .await;
    assert!(!valid.unwrap());
}

/// The body ends before the loss is noticed: its result is returned.
#[tokio::test]
async fn result_of_finished_body_is_kept() {
    let fixture = Fixture::start().await;
    let run = fixture.locks().lock("row").run(async |_| {
        fixture.query::<()>("DEL lock:row");
        "done"
    });
    assert_eq!(run.await.unwrap(), "done");

    let mut server = Server::start();
    let locks = connected(server.url()).await;
    let run = locks.lock("row").run(async |_| {
        server.kill();
        "done"
    });
    assert_eq!(within(millis(2500), run).await.unwrap(), "done");
}

#[tokio::test]
async fn release_of_lost_lock_reports_loss() {
    let fixture = Fixture::start().await;
    let guard = fixture.locks().lock("row").acquire().await.unwrap();
    fixture.query::<()>("DEL lock:row");
    assert!(guard.release().await.unwrap_err().is_lost());
    let guard = fixture.locks().lock("row").acquire().await.unwrap();
    fixture.query::<()>("SET lock:row thief");
    assert!(guard.release().await.unwrap_err().is_lost());
    assert_eq!(fixture.query::<String>("GETDEL lock:row"), "thief");
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
