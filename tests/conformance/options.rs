//! `min_hold`, `max_waiters` and `release`.

use std::time::Duration;

use lock_runtime::{Lock, LockError, LockManager, ReleaseMode};

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::fixture::{Fixture, config_of, is_refused};
use lock_test_support::time::{begin, millis, soon};

const LONG: Duration = Duration::from_secs(60);
const MIN_HOLD: Duration = Duration::from_millis(900);

/// Checks that the lock is held for the rest of its time, and then free.
async fn is_kept(fixture: &Fixture, key: &str, since: Instant) {
    while since.elapsed() < MIN_HOLD - millis(300) {
        let held = fixture.is_held(key).await;
        let passed = since.elapsed();
        assert!(held || passed >= MIN_HOLD, "after {passed:?}");
        tokio::time::sleep(millis(50)).await;
    }
    fixture.until_free(key).await;
}

pub async fn min_hold_keeps_lock_on_every_exit_path(fixture: Fixture) {
    let lock = |n: usize| -> (Lock, String) {
        let job = fixture.key(&format!("job:{n}"));
        (fixture.locks().lock(&*job).min_hold(MIN_HOLD), job)
    };
    let released = async {
        let ((lock, job), since) = (lock(0), Instant::now());
        lock.acquire().await.unwrap().release().await.unwrap();
        is_kept(&fixture, &job, since).await;
    };
    let dropped = async {
        let ((lock, job), since) = (lock(1), Instant::now());
        drop(lock.acquire().await.unwrap());
        is_kept(&fixture, &job, since).await;
    };
    let in_background = async {
        let ((lock, job), since) = (lock(2), Instant::now());
        let lock = lock.release_mode(ReleaseMode::Background);
        lock.run(async |_| ()).await.unwrap();
        is_kept(&fixture, &job, since).await;
    };
    let panics = async {
        let ((lock, job), since) = (lock(3), Instant::now());
        let body = tokio::spawn(async move { lock.run(async |_| panic!("on purpose")).await });
        assert!(body.await.unwrap_err().is_panic());
        is_kept(&fixture, &job, since).await;
    };
    let long = async {
        let (lock, job) = lock(4);
        let guard = lock.acquire().await.unwrap();
        tokio::time::sleep(MIN_HOLD + millis(20)).await;
        guard.release().await.unwrap();
        fixture.until_free(&job).await;
    };
    tokio::join!(released, dropped, in_background, panics, long);
}

/// The leases of those that share a lock are shortened one by one.
pub async fn shared_lock_is_free_after_min_hold(fixture: Fixture) {
    if !fixture.has_permits() {
        return;
    }
    let job = fixture.key("job");
    let [one, two] = fixture.both().map(|locks| {
        let lock = locks.lock(&*job).permits(2).min_hold(MIN_HOLD);
        lock.acquire()
    });
    let (one, two) = tokio::try_join!(one, two).unwrap();
    one.release().await.unwrap();
    two.release().await.unwrap();
    fixture.until_free(&job).await;
}

pub async fn min_hold_is_validated(fixture: Fixture) {
    // The process relies on a little less.
    const LEASE: Duration = Duration::from_secs(10);

    let lock = || fixture.locks().lock(fixture.key("job"));
    for lock in [
        lock().min_hold(Duration::ZERO),
        lock().min_hold(millis(30)).max_hold(millis(20)),
        lock().min_hold(LEASE).ttl(LEASE).renew(false),
    ] {
        let refused = lock.acquire().await.unwrap_err();
        assert!(is_refused(&refused, "min_hold"), "{refused}");
    }
}

pub async fn max_waiters_makes_further_callers_busy(fixture: Fixture) {
    let door = fixture.key("door");
    let lock = || fixture.locks().lock(&*door).max_waiters(2);
    let holder = lock().acquire().await.unwrap();
    let mut waiters = JoinSet::new();
    for _ in 0..2 {
        let mut call = Box::pin(lock().acquire());
        assert!(begin(&mut call).is_pending());
        waiters.spawn(call);
    }
    let refused = soon(lock().acquire()).await.unwrap_err();
    let waiting = match &refused {
        LockError::Busy { waiting, .. } => *waiting,
        _ => None,
    };
    assert_eq!(waiting, Some(2), "{refused}");
    holder.release().await.unwrap();
    for _ in 0..2 {
        let guard = soon(waiters.join_next()).await.unwrap();
        guard.unwrap().unwrap().release().await.unwrap();
    }
    fixture.until_free(&door).await;
}

/// Only an exclusive lock of one key, which is renewed, can be kept for the next call, and only where the
/// call asks for it.
pub async fn lazy_is_refused_where_it_makes_no_sense(fixture: Fixture) {
    let [one, other] = ["one", "other"].map(|name| fixture.key(name));
    let lock = || fixture.locks().lock(&*one).wait(Duration::ZERO);
    let both = fixture.locks().lock_all([&*one, &*other]);
    for (lock, named) in [
        (lock().read(), "`read`"),
        (lock().permits(2), "`permits`"),
        (both, "several keys"),
        (lock().min_hold(millis(20)), "`min_hold`"),
        (lock().renew(false), "renewed"),
    ] {
        let lock = lock.release_mode(ReleaseMode::Lazy);
        let refused = lock.acquire().await.unwrap_err();
        assert!(is_refused(&refused, "release"), "{refused}");
        assert!(refused.to_string().contains(named), "{refused}");
    }
    assert!(!fixture.is_held(&one).await && !fixture.is_held(&other).await);
    for lock in [
        lock().permits(1),
        fixture.locks().lock_all([&*one]),
        lock().reentrant(true).max_hold(LONG).max_waiters(1),
    ] {
        let lock = lock.release_mode(ReleaseMode::Lazy);
        let ran = soon(lock.run(async |guard| guard.is_valid())).await;
        assert!(ran.unwrap());
    }

    let config = config_of(fixture.urls()).release_mode(ReleaseMode::Lazy);
    let refused = LockManager::connect(config).await.map(|_| ()).unwrap_err();
    let LockError::InvalidConfig { reason, .. } = &refused else {
        panic!("{refused}");
    };
    assert!(reason.contains("`Lazy`"), "{reason}");
}

/// A lock that its caller never received.
pub async fn canceled_call_keeps_no_lock_for_min_hold(fixture: Fixture) {
    let job = fixture.key("job");
    let holder = fixture.other().lock(&*job).acquire().await.unwrap();
    let lock = fixture.locks().lock(&*job).min_hold(LONG);
    let mut call = Box::pin(lock.acquire());
    let polled = tokio::time::timeout(millis(200), &mut call).await;
    assert!(polled.is_err(), "another client holds the lock");
    holder.release().await.unwrap();
    // It is granted to the call, which is not polled again.
    tokio::time::sleep(millis(200)).await;
    drop(call);
    fixture.until_free(&job).await;
}
