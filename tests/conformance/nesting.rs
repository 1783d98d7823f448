//! Calls within a body that holds the lock already.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use lock_runtime::{Lock, LockError, OnLost};

use super::fixture::Fixture;
use lock_test_support::time::{millis, soon};

const LONG: Duration = Duration::from_secs(60);

fn is_deadlock(result: &Result<(), LockError>) -> bool {
    matches!(result, Err(LockError::WouldDeadlock { .. }))
}

/// Runs a body that counts how many of its kind run at the same time.
async fn count(lock: Lock, inside: &AtomicUsize, most: &AtomicUsize) -> Result<(), LockError> {
    let body = async |_: &_| {
        most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
        tokio::time::sleep(millis(5)).await;
        inside.fetch_sub(1, SeqCst);
    };
    lock.run(body).await
}

pub async fn nested_call_for_held_lock_would_deadlock(fixture: Fixture) {
    let (door, other) = (fixture.key("door"), fixture.key("other"));
    let lock = |key: &str| fixture.locks().lock(key);
    let nested = lock(&door).run(async |_| lock(&door).run(async |_| ()).await);
    assert!(is_deadlock(&soon(nested).await.unwrap()));
    let deep = lock(&door).run(async |_| {
        tokio::task::yield_now().await;
        let inner = lock(&other).run(async |_| {
            tokio::time::sleep(millis(1)).await;
            fixture
                .locks()
                .lock_all([&*door, "unused"])
                .run(async |_| ())
                .await
        });
        inner.await.unwrap()
    });
    assert!(is_deadlock(&soon(deep).await.unwrap()));
    // Another manager is another client, whose wait ends.
    let other = fixture.other().lock(&*door).wait(millis(50));
    let nested = lock(&door).run(async move |_| other.run(async |_| ()).await);
    let error = nested.await.unwrap().unwrap_err();
    assert!(error.is_busy() || error.is_unavailable(), "{error}");
    fixture.until_free(&door).await;
}

pub async fn nested_call_has_the_fencing_token_of_the_outer_one(fixture: Fixture) {
    let door = fixture.key("door");
    let lock = || fixture.locks().lock(&*door).reentrant(true);
    let outer = lock().run(async |outer| {
        let inner = async || lock().run(async |inner| inner.fencing_token().await).await;
        let before = inner().await.unwrap().unwrap();
        let token = outer.fencing_token().await.unwrap();
        assert_eq!(before, token);
        assert_eq!(inner().await.unwrap().unwrap(), token);
        token
    });
    let token = outer.await.unwrap();
    let next = lock().acquire().await.unwrap();
    assert!(next.fencing_token().await.unwrap() > token);
    next.release().await.unwrap();
    fixture.until_free(&door).await;
}

/// Its future is polled by one task first, then by another.
pub async fn body_that_moves_to_another_task_keeps_its_locks(fixture: Fixture) {
    let door = fixture.key("door");
    let lock = fixture.locks().lock(&*door);
    let (moved, moves) = tokio::sync::oneshot::channel::<()>();
    let mut call = Box::pin(lock.clone().run(async move |_| {
        moves.await.unwrap();
        let refused = lock.clone().acquire().await.unwrap_err();
        assert!(matches!(refused, LockError::WouldDeadlock { .. }));
        lock.reentrant(true).run(async |_| ()).await.unwrap();
    }));
    assert!(tokio::time::timeout(millis(100), &mut call).await.is_err());
    let call = tokio::spawn(call);
    moved.send(()).unwrap();
    soon(call).await.unwrap().unwrap();
    fixture.until_free(&door).await;
}

pub async fn nested_single_try_is_busy(fixture: Fixture) {
    let door = fixture.key("door");
    let lock = || fixture.locks().lock(&*door);
    let nested = lock().run(async |_| {
        let busy = lock().wait(Duration::ZERO).acquire().await.unwrap_err();
        assert!(busy.is_busy());
        lock().try_acquire().await.unwrap().is_none()
    });
    assert!(nested.await.unwrap());
    fixture.until_free(&door).await;
}

pub async fn nested_single_try_beside_another_call_is_none(fixture: Fixture) {
    let door = fixture.key("door");
    let again = || fixture.locks().lock(&*door).reentrant(true);
    let outer = again().run(async |_| {
        let inner = again().acquire().await.unwrap();
        assert!(again().try_acquire().await.unwrap().is_none());
        inner.release().await.unwrap();
        again().try_acquire().await.unwrap().is_some()
    });
    assert!(outer.await.unwrap());
    fixture.until_free(&door).await;
}

/// A body that continues after a loss holds nothing.
pub async fn lost_lock_can_be_acquired_in_its_body(fixture: Fixture) {
    let door = fixture.key("door");
    let lock = || fixture.locks().lock(&*door);
    let body = lock().ttl(fixture.short_lease()).on_lost(OnLost::Continue);
    let again = body.run(async |guard| {
        if fixture.deleted(&door) {
            assert!(soon(guard.lost()).await.is_lost());
            soon(lock().run(async |_| ())).await.unwrap();
        }
    });
    again.await.unwrap();
    fixture.until_free(&door).await;
}

pub async fn upgrade_would_deadlock(fixture: Fixture) {
    let door = fixture.key("door");
    let lock = || fixture.locks().lock(&*door);
    for inner in [lock(), lock().read(), lock().reentrant(true)] {
        let nested = lock()
            .read()
            .run(async move |_| inner.run(async |_| ()).await);
        assert!(is_deadlock(&nested.await.unwrap()));
    }
    let nested = lock().run(async |_| lock().read().run(async |_| ()).await);
    assert!(is_deadlock(&nested.await.unwrap()));
    fixture.until_free(&door).await;
}

pub async fn reentrant_calls_run_under_outer_hold_one_at_a_time(fixture: Fixture) {
    let door = fixture.key("door");
    let again = || fixture.locks().lock(&*door).reentrant(true);
    let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let outer = again().run(async |outer| {
        let token = outer.fencing_token().await.unwrap();
        count(again(), &inside, &most).await.unwrap();
        let one = || count(again(), &inside, &most);
        let (a, b, c) = tokio::join!(one(), one(), one());
        a.and(b).and(c).unwrap();
        let nested = again().run(async |inner| {
            assert_eq!(inner.fencing_token().await.unwrap(), token);
            again().run(async |_| ()).await
        });
        nested.await.unwrap().unwrap();
        // A guard that outlives the body keeps the lock.
        again().acquire().await.unwrap()
    });
    let inner = soon(outer).await.unwrap();
    assert_eq!(most.load(SeqCst), 1);
    assert!(inner.is_valid() && fixture.is_held(&door).await);
    inner.release().await.unwrap();
    fixture.until_free(&door).await;
}

pub async fn nested_guard_is_not_downgraded_under_its_body(fixture: Fixture) {
    let order = fixture.key("order");
    let lock = || fixture.locks().lock(&*order);
    let body = lock().run(async |outer| {
        let inner = lock().reentrant(true).acquire().await.unwrap();
        let refused = inner.downgrade().await.unwrap_err();
        assert!(
            matches!(refused, LockError::Unsupported { .. }),
            "{refused}"
        );
        assert!(outer.is_valid(), "the outer body runs without a lease");
        assert!(fixture.is_held(&order).await);
    });
    body.await.unwrap();
    fixture.until_free(&order).await;
}

pub async fn reentrant_readers_run_together(fixture: Fixture) {
    let door = fixture.key("door");
    let again = || fixture.locks().lock(&*door).read().reentrant(true);
    let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let outer = again().run(async |_| {
        let one = || count(again(), &inside, &most);
        let (a, b) = tokio::join!(one(), one());
        a.and(b)
    });
    soon(outer).await.unwrap().unwrap();
    assert_eq!(most.load(SeqCst), 2);
    fixture.until_free(&door).await;
}

pub async fn spawned_task_inherits_nothing(fixture: Fixture) {
    let door = fixture.key("door");
    let lock = |wait| fixture.locks().lock(&*door).wait(wait);
    let (again, later) = (lock(millis(50)).reentrant(true), lock(LONG));
    let spawned = lock(LONG).run(async move |_| {
        let busy = tokio::spawn(again.acquire()).await.unwrap().unwrap_err();
        assert!(busy.is_busy() || busy.is_unavailable(), "{busy}");
        (tokio::spawn(later.acquire()),)
    });
    let (later,) = spawned.await.unwrap();
    let guard = soon(later).await.unwrap().unwrap();
    guard.release().await.unwrap();
    fixture.until_free(&door).await;
}

pub async fn siblings_exclude_each_other(fixture: Fixture) {
    let door = fixture.key("door");
    let lock = || fixture.locks().lock(&*door);
    let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let one = || count(lock(), &inside, &most);
    let (a, b, c) = soon(async { tokio::join!(one(), one(), one()) }).await;
    a.and(b).and(c).unwrap();
    assert_eq!(most.load(SeqCst), 1);
    fixture.until_free(&door).await;
}
