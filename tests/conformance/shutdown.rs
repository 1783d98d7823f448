//! What a shutdown does with bodies that run, and with guards that live.

use std::future::pending;
use std::time::Duration;

use lock_runtime::{Lock, LockError, LockGuard, LockManager, LostCause};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;

use super::fixture::{COMMAND_TIMEOUT, Fixture};
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{NOISE, begin, millis, soon, within};

const LONG: Duration = Duration::from_secs(60);

/// Starts a body that ends when the result's sender is used or dropped. Returns once it runs.
async fn body(
    locks: &LockManager,
    key: &str,
) -> (oneshot::Sender<()>, JoinHandle<Result<(), LockError>>) {
    let (inside, entered) = oneshot::channel();
    let (end, ends) = oneshot::channel();
    let lock = locks.lock(key);
    let run = lock.run(async |_| {
        let _ = inside.send(());
        let _ = ends.await;
    });
    let run = tokio::spawn(run);
    soon(entered).await.unwrap();
    (end, run)
}

fn is_shut_down(loss: &LockError) -> bool {
    matches!(
        loss,
        LockError::Lost {
            cause: LostCause::ShutDown,
            ..
        }
    )
}

pub async fn shutdown_waits_for_bodies_that_finish(fixture: Fixture) {
    let (locks, row) = (fixture.another().await, fixture.key("row"));
    let (end, running) = body(&locks, &row).await;
    let mut shutdown = Box::pin(locks.shutdown_within(LONG));
    assert!(begin(&mut shutdown).is_pending());
    for lock in [
        locks.lock(fixture.key("other")),
        locks.lock(&*row),
        locks.lock(&*row).wait(Duration::ZERO),
        locks
            .lock_all([&*row, &*fixture.key("other")])
            .wait(Duration::ZERO),
    ] {
        let refused = lock.acquire().await.unwrap_err();
        let is_refused = matches!(refused, LockError::ShuttingDown { .. });
        assert!(is_refused, "{refused}");
    }
    assert!(fixture.is_held(&row).await);
    assert!(begin(&mut shutdown).is_pending());
    end.send(()).unwrap();
    soon(shutdown).await;
    assert!(!fixture.is_held(&row).await);
    running.await.unwrap().unwrap();
}

pub async fn shutdown_cancels_bodies_that_stay(fixture: Fixture) {
    let locks = fixture.another().await;
    let (row, other) = (fixture.key("row"), fixture.key("other"));
    let (_end, running) = body(&locks, &row).await;
    let both = locks.lock_all([&*other, &*fixture.key("third")]);
    let (inside, entered) = oneshot::channel();
    let both = tokio::spawn(both.run(async |_| {
        let _ = inside.send(());
        pending::<()>().await;
    }));
    soon(entered).await.unwrap();
    let start = Instant::now();
    soon(locks.shutdown_within(millis(200))).await;
    assert!(start.elapsed() >= millis(190), "the bodies had their time");
    for key in ["row", "other", "third"] {
        assert!(!fixture.is_held(&fixture.key(key)).await, "{key}");
    }
    for ended in [running, both] {
        let loss = ended.await.unwrap().unwrap_err();
        assert!(is_shut_down(&loss), "{loss}");
    }
}

/// A guard is its owner's: until it is dropped, no other client gets the lock.
pub async fn shutdown_releases_no_lock_under_its_guard(fixture: Fixture) {
    let (locks, row) = (fixture.another().await, fixture.key("row"));
    let guard: LockGuard = locks.lock(&*row).acquire().await.unwrap();
    let mut shutdown = Box::pin(locks.shutdown_within(Duration::ZERO));
    let loss = tokio::select! {
        loss = guard.lost() => loss,
        () = &mut shutdown => panic!("the guard still lives"),
    };
    assert!(is_shut_down(&loss) && !guard.is_valid(), "{loss}");
    assert!(fixture.is_held(&row).await);
    assert!(begin(&mut shutdown).is_pending());
    drop(guard);
    soon(shutdown).await;
    assert!(!fixture.is_held(&row).await);
}

/// A shutdown that cancels a body ends no `min_hold` early.
pub async fn canceling_shutdown_keeps_locks_for_their_min_hold(fixture: Fixture) {
    let (locks, row) = (fixture.another().await, fixture.key("row"));
    let (acquired, min_hold) = (Instant::now(), millis(900));
    let kept = locks
        .lock(&*row)
        .min_hold(min_hold)
        .acquire()
        .await
        .unwrap();
    kept.release().await.unwrap();
    let (_end, running) = body(&locks, &fixture.key("other")).await;
    soon(locks.shutdown_within(Duration::ZERO)).await;
    let loss = running.await.unwrap().unwrap_err();
    assert!(is_shut_down(&loss), "{loss}");
    fixture.until_free(&row).await;
    let kept = acquired.elapsed();
    assert!(kept >= min_hold, "{kept:?}");
}

/// A body that blocks its thread until the sender is dropped.
struct Blocked {
    end: std::sync::mpsc::Sender<()>,
    running: JoinHandle<Result<(), LockError>>,
    /// The end of its first lease.
    leased_until: Instant,
}

async fn blocked_body(lock: Lock) -> Blocked {
    let (inside, entered) = oneshot::channel();
    let (end, ends) = std::sync::mpsc::channel::<()>();
    let runtime = tokio::runtime::Handle::current();
    let running = spawn_blocking(move || {
        runtime.block_on(lock.run(async move |guard| {
            let _ = inside.send(Instant::now() + guard.remaining());
            let _ = ends.recv();
            pending::<()>().await;
        }))
    });
    Blocked {
        leased_until: soon(entered).await.unwrap(),
        end,
        running,
    }
}

/// A body between two awaits can't be stopped: its lease ends by itself.
pub async fn shutdown_waits_for_the_lease_of_a_body_that_blocks(fixture: Fixture) {
    let (locks, row, ttl) = (
        fixture.another().await,
        fixture.key("row"),
        fixture.short_lease(),
    );
    let body = blocked_body(locks.lock(&*row).ttl(ttl)).await;
    let grace = millis(50);
    within(grace + ttl + NOISE, locks.shutdown_within(grace)).await;
    assert!(Instant::now() >= body.leased_until, "it may still run");
    fixture.until_free(&row).await;
    drop(body.end);
    let loss = body.running.await.unwrap().unwrap_err();
    assert!(is_shut_down(&loss), "{loss}");
}

/// The body has lost its lock before the shutdown, and nothing is due for it any more.
pub async fn shutdown_waits_for_the_lease_of_a_body_past_its_max_hold(fixture: Fixture) {
    let (locks, row) = (fixture.another().await, fixture.key("row"));
    let lock = locks.lock(&*row).ttl(fixture.short_lease());
    let body = blocked_body(lock.max_hold(millis(100))).await;
    tokio::time::sleep(millis(150)).await;
    soon(locks.shutdown_within(Duration::ZERO)).await;
    assert!(Instant::now() >= body.leased_until, "it may still run");
    fixture.until_free(&row).await;
    drop(body.end);
    assert!(body.running.await.unwrap().unwrap_err().is_lost());
}

/// No new lock is granted by then, but those of the body's own hold are not new.
pub async fn nested_calls_run_during_shutdown(fixture: Fixture) {
    let (locks, row) = (fixture.another().await, fixture.key("row"));
    let (begun, shuts) = oneshot::channel();
    let (inside, entered) = oneshot::channel();
    let nested = locks.lock(&*row).reentrant(true);
    let outer = locks.lock(&*row).run(async |_| {
        let _ = inside.send(());
        let _ = shuts.await;
        nested.run(async |_| ()).await
    });
    let outer = tokio::spawn(outer);
    soon(entered).await.unwrap();
    let mut shutdown = Box::pin(locks.shutdown_within(LONG));
    assert!(begin(&mut shutdown).is_pending());
    begun.send(()).unwrap();
    soon(shutdown).await;
    outer.await.unwrap().unwrap().unwrap();
    assert!(!fixture.is_held(&row).await);
}

pub async fn first_of_several_shutdowns_cancels(fixture: Fixture) {
    let (locks, row) = (fixture.another().await, fixture.key("row"));
    let (_end, running) = body(&locks, &row).await;
    let shutdowns = async {
        tokio::join!(
            locks.shutdown_within(LONG),
            locks.shutdown_within(millis(50)),
            locks.shutdown_within(LONG)
        )
    };
    soon(shutdowns).await;
    assert!(!fixture.is_held(&row).await);
    let loss = running.await.unwrap().unwrap_err();
    assert!(is_shut_down(&loss), "{loss}");
    soon(locks.shutdown()).await;
}

pub async fn dropped_shutdown_cancels_no_body(fixture: Fixture) {
    let (locks, row) = (fixture.another().await, fixture.key("row"));
    let (end, running) = body(&locks, &row).await;
    let shutdown = tokio::time::timeout(millis(30), locks.shutdown_within(LONG));
    assert!(shutdown.await.is_err());
    let refused = locks.lock(fixture.key("other")).acquire().await;
    assert!(matches!(refused, Err(LockError::ShuttingDown { .. })));
    assert!(fixture.is_held(&row).await);
    end.send(()).unwrap();
    running.await.unwrap().unwrap();
    soon(locks.shutdown()).await;
    assert!(!fixture.is_held(&row).await);
}

/// With a server that does not answer, it takes its time and twice the ttl at most.
pub async fn shutdown_of_bodies_is_bounded_during_an_outage(fixture: Fixture) {
    let Some((network, locks)) = fixture.over_a_network().await else {
        return;
    };
    let (row, ttl, grace) = (fixture.key("row"), fixture.short_lease(), millis(100));
    let run = locks.lock(&*row).ttl(ttl);
    let (inside, entered) = oneshot::channel();
    let running = tokio::spawn(run.run(async |_| {
        let _ = inside.send(());
        pending::<()>().await;
    }));
    soon(entered).await.unwrap();
    network.each(Proxy::black_hole);
    let limit = grace + ttl * 2 + COMMAND_TIMEOUT + NOISE;
    within(limit, locks.shutdown_within(grace)).await;
    let loss = running.await.unwrap().unwrap_err();
    assert!(loss.is_lost(), "{loss}");
    network.each(Proxy::heal);
    fixture.until_free(&row).await;
}
