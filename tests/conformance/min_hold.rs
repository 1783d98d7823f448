//! The end of `min_hold` serves the queue: no newcomer overtakes it.

use std::time::Duration;

use lock_runtime::LockManager;
use tokio::time::Instant;

use super::fixture::Fixture;
use lock_test_support::pollers::Pollers;
use lock_test_support::time::{millis, soon};

const MIN_HOLD: Duration = millis(50);

/// Two processes that tried all the time kept a waiter out for 10 s.
pub async fn end_of_min_hold_serves_the_queue_before_newcomers(fixture: Fixture) {
    let waiter = fixture.another().await;
    let permits = if fixture.has_permits() { 2 } else { 1 };
    for permits in 1..=permits {
        let row = fixture.key(&format!("row:{permits}"));
        let lock = |locks: &LockManager| locks.lock(&*row).permits(permits).min_hold(MIN_HOLD);
        let pollers = Pollers::start(fixture.both(), lock);
        for _ in 0..3 {
            soon(pollers.take_turns()).await;
            let waits = tokio::spawn(lock(&waiter).acquire());
            let is_queued = async {
                while !waits.is_finished() && fixture.waiting(&row).await == 0 {
                    tokio::time::sleep(millis(3)).await;
                }
            };
            soon(is_queued).await;
            let before = pollers.holds();
            let guard = soon(waits).await.unwrap();
            let passed = pollers.holds() - before;
            guard.unwrap().release().await.unwrap();
            // Each may have got it before, and counted it late.
            assert!(passed <= 2 || !fixture.has_queue(), "{passed} came first");
        }
        soon(pollers.end()).await;
        fixture.until_free(&row).await;
    }
    waiter.shutdown().await;
}

/// The end wakes the waiter, as a release does: by itself it would poll by then every 0.5 s.
pub async fn end_of_min_hold_reaches_next_process_at_once(fixture: Fixture) {
    const MIN_HOLD: Duration = millis(1500);

    if !fixture.tells_waiters() {
        return;
    }
    let row = fixture.key("row");
    let (mut late, mut released) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let guard = fixture.locks().lock(&*row).acquire().await.unwrap();
        let next = tokio::spawn(fixture.other().lock(&*row).acquire());
        fixture.until_waiting(&row, 1).await;
        let began = Instant::now();
        guard.release().await.unwrap();
        let next = soon(next).await.unwrap().unwrap();
        released.push(began.elapsed());
        next.release().await.unwrap();
        let holder = fixture.locks().lock(&*row).min_hold(MIN_HOLD);
        let (began, guard) = (Instant::now(), holder.acquire().await.unwrap());
        guard.release().await.unwrap();
        let next = soon(fixture.other().lock(&*row).acquire());
        next.await.unwrap().release().await.unwrap();
        let waited = began.elapsed();
        assert!(waited >= MIN_HOLD, "{waited:?}");
        late.push(waited - MIN_HOLD);
    }
    let [late, released] = [late, released].map(|mut all| {
        all.sort();
        all[all.len() / 2]
    });
    assert!(
        late < millis(120) + released * 3,
        "{late:?} after the end, {released:?} after a release"
    );
}

/// Neither the end of its manager nor a shutdown that cancels the body ends a `min_hold` early, or lets the
/// lock expire instead of releasing it.
pub async fn min_hold_ends_in_time_without_its_manager(fixture: Fixture) {
    const MIN_HOLD: Duration = millis(900);

    if !fixture.has_processes() {
        return;
    }
    for shuts_down in [false, true] {
        let (row, locks) = (fixture.key("row"), fixture.another().await);
        let lock = locks.lock(&*row).min_hold(MIN_HOLD);
        let (began, guard) = (Instant::now(), lock.acquire().await.unwrap());
        if shuts_down {
            let canceled = async {
                guard.lost().await;
                drop(guard);
            };
            let both = tokio::join!(locks.shutdown_within(Duration::ZERO), canceled);
            drop((both, locks));
        } else {
            drop((guard, locks));
        }
        let next = soon(fixture.other().lock(&*row).acquire());
        next.await.unwrap().release().await.unwrap();
        let waited = began.elapsed();
        assert!(waited >= MIN_HOLD, "{waited:?}, shut down: {shuts_down}");
    }
}
