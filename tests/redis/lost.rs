//! A lease that can no longer be proven ends the body: at its next await point, no later than
//! the deadline, and its caller gets `Lost`.

use std::cell::RefCell;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use lock_runtime::{LockError, LockManager, OnLost, distributed_lock};
use tokio::task::yield_now;

use super::site::Site;
use crate::support::manager::connected;
use crate::support::proxy::Proxy;
use crate::support::server::Server;
use crate::support::time::{NOISE, Stopwatch, millis, within};

const TTL: Duration = millis(1200);
/// A renewal comes after a third of the ttl, a tenth more or less.
const NEXT_RENEWAL: Duration = millis(1200 / 3 + 1200 / 30);

/// Tells when it is dropped.
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

/// The body that never ends gets cancelled, at most this long after `fault`; the caller gets `Lost`.
async fn is_cancelled(locks: &LockManager, at_most: Duration, fault: impl FnOnce()) {
    let ended = AtomicBool::new(false);
    let (inside, entered) = tokio::sync::oneshot::channel();
    let call = hold(locks, &ended, inside);
    let fault = async {
        within(NOISE, entered).await.unwrap();
        // Past a renewal, so that the lease is one that was renewed.
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
        "the body is gone when the caller hears of it"
    );
    assert!(took <= at_most + NOISE, "{took:?} after the fault");
}

#[tokio::test]
async fn key_deleted() {
    let site = Site::start().await;
    is_cancelled(site.locks(), NEXT_RENEWAL, || site.query("DEL lock:row")).await;
}

#[tokio::test]
async fn key_stolen_and_the_thief_left_alone() {
    let site = Site::start().await;
    is_cancelled(site.locks(), NEXT_RENEWAL, || {
        site.query("SET lock:row thief PX 60000")
    })
    .await;
    site.locks().shutdown().await;
    assert_eq!(site.query::<String>("GET lock:row"), "thief");
    let left: u64 = site.query("PTTL lock:row");
    assert!(
        left > 50_000,
        "nobody shortens the thief's lease to {left} ms"
    );
    site.query::<()>("DEL lock:row");
}

#[tokio::test]
async fn server_frozen() {
    let mut server = Server::start();
    let locks = connected(server.url()).await;
    is_cancelled(&locks, TTL, || server.pause()).await;
    server.resume();
}

#[tokio::test]
async fn server_killed() {
    let mut server = Server::start();
    let locks = connected(server.url()).await;
    is_cancelled(&locks, TTL, || server.kill()).await;
}

#[tokio::test]
async fn server_restarted_without_its_keys() {
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
async fn connection_cut() {
    let (_server, proxy, locks) = behind_a_proxy().await;
    is_cancelled(&locks, TTL, || proxy.cut()).await;
}

#[tokio::test]
async fn black_hole() {
    let (_server, proxy, locks) = behind_a_proxy().await;
    is_cancelled(&locks, TTL, || proxy.black_hole()).await;
    proxy.heal();
}

/// Renewals arrive and prolong the key, but nobody knows: the lock isn't ours any more, and
/// not renewed for ever.
#[tokio::test]
async fn replies_black_holed() {
    let (server, proxy, locks) = behind_a_proxy().await;
    is_cancelled(&locks, TTL, || proxy.hold_replies()).await;
    proxy.heal();
    server.until_gone("lock:row", TTL + NOISE);
}

/// Not an instant longer than the time to live, whatever it was: exact, without any noise.
#[tokio::test]
async fn validity_never_outlasts_the_key() {
    let site = Site::start().await;
    for ttl in [millis(150), millis(400)] {
        let lock = site.locks().lock("row").ttl(ttl).renew(false);
        let guard = lock.acquire().await.unwrap();
        let had = Instant::now();
        let margin = ttl / 100 + millis(2);
        assert!(guard.remaining() <= ttl - margin, "{:?}", guard.remaining());
        // No later than it was looked at, however long this thread stood still in between.
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
async fn ensure_looks_ahead() {
    let site = Site::start().await;
    let lock = site.locks().lock("row").ttl(millis(5000)).renew(false);
    let guard = lock.acquire().await.unwrap();
    guard.ensure_valid_for(millis(2000)).unwrap();
    assert!(guard.ensure_valid_for(millis(5000)).is_err());
    assert!(guard.is_valid(), "a look ahead loses nothing");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn without_renewal_the_body_has_its_ttl() {
    let site = Site::start().await;
    let start = Instant::now();
    let run = site.locks().lock("row").ttl(millis(300)).renew(false);
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
    let site = Site::start().await;
    let start = Instant::now();
    let run = site
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
    site.until_gone("lock:row", NOISE);
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
async fn with_continue_the_body_goes_on_and_the_guard_says_so() {
    let site = Site::start().await;
    assert_eq!(goes_on(site.locks(), &site).await.unwrap(), "done");
    assert_eq!(site.query::<String>("GET lock:row"), "thief");

    site.query::<()>("DEL lock:row");
    let run = site
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

/// The body ends before anybody noticed: what it gave is never replaced.
#[tokio::test]
async fn the_result_of_a_body_that_ended_stays() {
    let site = Site::start().await;
    let run = site.locks().lock("row").run(async |_| {
        site.query::<()>("DEL lock:row");
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
async fn a_release_tells_what_it_found() {
    let site = Site::start().await;
    let guard = site.locks().lock("row").acquire().await.unwrap();
    site.query::<()>("DEL lock:row");
    assert!(guard.release().await.unwrap_err().is_lost());
    let guard = site.locks().lock("row").acquire().await.unwrap();
    site.query::<()>("SET lock:row thief");
    assert!(guard.release().await.unwrap_err().is_lost());
    assert_eq!(site.query::<String>("GETDEL lock:row"), "thief");
}

/// Half of the lease, at the worst moment: right before a renewal.
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
        // Where the machine stalls for so long, a lease ends.
        if survived.is_ok() || watch.stalled() < ttl / 6 {
            return survived.unwrap();
        }
        repair();
    }
    panic!("the machine stalls all the time");
}

#[tokio::test]
async fn a_short_cut_is_survived() {
    let (_server, proxy, locks) = behind_a_proxy().await;
    is_survived(&locks, || proxy.cut(), || proxy.heal()).await;
}

#[tokio::test]
async fn a_short_black_hole_is_survived() {
    let (_server, proxy, locks) = behind_a_proxy().await;
    is_survived(&locks, || proxy.black_hole(), || proxy.heal()).await;
}

#[tokio::test]
async fn a_short_freeze_of_the_server_is_survived() {
    let server = Server::start();
    let locks = connected(server.url()).await;
    let server = RefCell::new(server);
    let (pause, resume) = (
        || server.borrow_mut().pause(),
        || server.borrow_mut().resume(),
    );
    is_survived(&locks, pause, resume).await;
}

/// The lock is renewed for as long as it's held, and not an instant longer.
#[tokio::test]
async fn a_held_lock_is_renewed_and_a_released_one_is_not() {
    let site = Site::start().await;
    let guard = site
        .locks()
        .lock("row")
        .ttl(millis(1500))
        .acquire()
        .await
        .unwrap();
    let token: String = site.query("GET lock:row");
    let end = Instant::now() + millis(4500);
    while Instant::now() < end {
        assert_eq!(
            site.query::<Option<String>>("GET lock:row").as_ref(),
            Some(&token)
        );
        assert!(guard.is_valid());
        tokio::time::sleep(millis(20)).await;
    }
    guard.release().await.unwrap();
    site.query::<()>("CONFIG RESETSTAT");
    tokio::time::sleep(millis(500)).await;
    assert_eq!(site.calls(&["pexpire", "evalsha", "eval", "set"]), 0);
}
