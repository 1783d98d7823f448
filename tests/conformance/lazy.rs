//! Locks that stay with their process between its calls: `release = "lazy"`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lock_runtime::{Lock, LockEvent, LockGuard, LockManager, ReleaseMode, Report, Revocation};

use super::events::Told;
use super::fixture::Fixture;
use lock_test_support::manager::until_renewed;
use lock_test_support::time::{PATIENCE, millis, soon, until};
use tokio::time::Instant;

/// Of a lease so long, a tenure ends in no case.
pub const TTL: Duration = Duration::from_secs(36);

pub fn lazy(locks: &LockManager, key: &str) -> Lock {
    let lock = locks.lock(key).ttl(TTL);
    lock.release_mode(ReleaseMode::Lazy)
}

async fn call(lock: Lock) {
    lock.acquire().await.unwrap().release().await.unwrap();
}

fn resumed(locks: &LockManager) -> u64 {
    locks.stats().resumed
}

/// Calls until the lock is kept between two calls. Returns `false` if this topology keeps none.
pub async fn is_kept(fixture: &Fixture, locks: &LockManager, lock: impl Fn() -> Lock) -> bool {
    if !fixture.keeps() {
        call(lock()).await;
        return false;
    }
    let before = resumed(locks);
    let kept = async {
        loop {
            call(lock()).await;
            call(lock()).await;
            if resumed(locks) > before {
                return;
            }
            tokio::time::sleep(millis(10)).await;
        }
    };
    soon(kept).await;
    true
}

pub async fn next_call_of_the_process_needs_no_request(fixture: Fixture) {
    let (locks, row) = (fixture.another().await, fixture.key("row"));
    let lock = || lazy(&locks, &row);
    if !is_kept(&fixture, &locks, lock).await {
        assert!(!fixture.is_held(&row).await, "released as usual");
        return locks.shutdown().await;
    }
    let before = resumed(&locks);
    let mut last = 0;
    for n in 0..20 {
        let guard = lock().acquire().await.unwrap();
        assert!(guard.is_valid() && guard.remaining() > TTL / 2);
        if n % 5 == 0 {
            let token = guard.fencing_token().await.unwrap();
            assert!(token > last, "each guard has a number of its own");
            last = token;
        }
        drop(guard);
        let tried = lock().wait(Duration::ZERO).try_acquire().await.unwrap();
        tried.unwrap().release().await.unwrap();
        assert!(lock().run(async |guard| guard.is_valid()).await.unwrap());
    }
    assert_eq!(resumed(&locks), before + 60);
    assert!(
        fixture.is_held(&row).await,
        "a single try does not recall it"
    );
    assert_eq!(resumed(&locks), before + 60);
    locks.shutdown().await;
}

pub async fn waiter_elsewhere_recalls_a_kept_lock(fixture: Fixture) {
    let (locks, row) = (fixture.another().await, fixture.key("row"));
    is_kept(&fixture, &locks, || lazy(&locks, &row)).await;
    let watch = Instant::now();
    let waits = fixture.other().lock(&*row).ttl(TTL);
    let guard = soon(waits.acquire()).await.unwrap();
    // Without a recall it would have been given back after a third of its ttl.
    let took = watch.elapsed();
    assert!(took < TTL / 4, "{took:?}");
    guard.release().await.unwrap();
    // It is not kept again at once, so that processes that alternate lose one recall a tenure.
    let before = resumed(&locks);
    for _ in 0..5 {
        call(lazy(&locks, &row)).await;
        assert!(!fixture.is_held(&row).await);
    }
    assert_eq!(resumed(&locks), before);
    locks.shutdown().await;
}

/// One is given back while a call that wants all of them waits for another one, and a body keeps the third.
pub async fn keys_kept_elsewhere_are_recalled_together(fixture: Fixture) {
    let locks = fixture.another().await;
    let all = fixture
        .other()
        .lock_all(["a", "b", "c"].map(|name| fixture.key(name)));
    let all = all.ttl(TTL);
    let guard = all.clone().acquire().await.unwrap();
    let order: Vec<_> = guard.keys().map(str::to_owned).collect();
    guard.release().await.unwrap();
    for key in &order {
        is_kept(&fixture, &locks, || lazy(&locks, key)).await;
    }
    let [first, last] = [0, 2].map(|n| lazy(&locks, &order[n]).acquire());
    let (first, last) = (first.await.unwrap(), last.await.unwrap());
    let watch = Instant::now();
    let waiter = tokio::spawn(all.acquire());
    fixture.until_free(&order[1]).await;
    // Without a recall it would have been given back after a third of its ttl.
    let took = watch.elapsed();
    assert!(took < TTL / 4, "{took:?}");
    assert!(first.is_valid() && last.is_valid() && !waiter.is_finished());
    // No call waits for the third one yet.
    assert!(locks.stats().recalled <= 2, "{:?}", locks.stats());
    drop((first, last));
    let guard = soon(waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
    locks.shutdown().await;
}

/// Three calls that send nothing are worth a recall.
pub async fn lock_that_pays_off_is_kept_again_after_a_recall(fixture: Fixture) {
    let (locks, row) = (fixture.another().await, fixture.key("row"));
    if !is_kept(&fixture, &locks, || lazy(&locks, &row)).await {
        return locks.shutdown().await;
    }
    for calls in [3, 2] {
        for _ in 0..calls {
            call(lazy(&locks, &row)).await;
        }
        let other = fixture.other().lock(&*row).ttl(TTL);
        call(other).await;
        let before = resumed(&locks);
        call(lazy(&locks, &row)).await;
        assert_eq!(fixture.is_held(&row).await, calls == 3);
        assert_eq!(resumed(&locks), before);
    }
    locks.shutdown().await;
}

pub async fn recall_during_a_body_ends_with_it(fixture: Fixture) {
    let (locks, row) = (fixture.another().await, fixture.key("row"));
    is_kept(&fixture, &locks, || lazy(&locks, &row)).await;
    let body = lazy(&locks, &row).acquire().await.unwrap();
    let waits = fixture.other().lock(&*row).ttl(TTL);
    let waiter = tokio::spawn(waits.acquire());
    fixture.until_waiting(&row, 1).await;
    until(|| !fixture.keeps() || locks.stats().recalled > 0).await;
    assert!(body.is_valid() && !waiter.is_finished());
    let watch = Instant::now();
    drop(body);
    let next = soon(waiter).await.unwrap().unwrap();
    fixture.at_most(Duration::ZERO, watch);
    next.release().await.unwrap();
    locks.shutdown().await;
}

/// Nothing renews a lock that no body holds, and from then on it is released with its guard.
pub async fn kept_lock_is_released_when_its_renewal_is_due(fixture: Fixture) {
    let (locks, ttl) = (fixture.another().await, fixture.renewed_lease());
    let lock = |key: &str| lazy(&locks, &fixture.key(key)).ttl(ttl);
    let row = fixture.key("row");
    if is_kept(&fixture, &locks, || lock("row")).await {
        let watch = Instant::now();
        fixture.until_free(&row).await;
        // A third of the ttl, plus or minus a tenth.
        fixture.at_most(ttl * 11 / 30, watch);
    }
    assert_eq!(locks.stats().renewed, 0);
    is_kept(&fixture, &locks, || lock("held")).await;
    let guard = lock("held").acquire().await.unwrap();
    until_renewed([&guard]).await;
    guard.release().await.unwrap();
    assert!(!fixture.is_held(&fixture.key("held")).await);
    locks.shutdown().await;
}

pub async fn call_that_a_kept_lock_does_not_suit_ends_it(fixture: Fixture) {
    let (locks, row) = (fixture.another().await, fixture.key("row"));
    let lock = || lazy(&locks, &row);
    let keep = async || is_kept(&fixture, &locks, lock).await;
    let single = || locks.lock(&*row).ttl(TTL).wait(Duration::ZERO);
    let mut others = vec![
        single().ttl(TTL / 2),
        single().renew(false),
        single().read(),
    ];
    if fixture.has_permits() {
        others.push(single().permits(3));
    }
    for other in others {
        keep().await;
        let guard = other.try_acquire().await.unwrap().expect("it was free");
        guard.release().await.unwrap();
        assert!(!fixture.is_held(&row).await);
    }
    keep().await;
    let both = [row.clone(), fixture.key("second")];
    let guard = locks.lock_all(&both).ttl(TTL).acquire().await;
    guard.unwrap().release().await.unwrap();
    keep().await;
    let confirmed = single().acquire().await.unwrap();
    confirmed.release().await.unwrap();
    assert!(!fixture.is_held(&row).await, "the last guard decides");
    locks.shutdown().await;
}

/// In order of arrival, and without a request as long as nobody else waits.
pub async fn callers_of_the_process_wait_beside_no_kept_lock(fixture: Fixture) {
    let (locks, row) = (fixture.another().await, fixture.key("row"));
    is_kept(&fixture, &locks, || lazy(&locks, &row)).await;
    let inside = Arc::new(AtomicU64::new(0));
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..40_u64 {
        let lock = match n % 3 {
            0 => lazy(&locks, &row),
            1 => locks.lock(&*row).ttl(TTL),
            _ => lazy(fixture.other(), &row),
        };
        let inside = inside.clone();
        let body = async move |_: &LockGuard| {
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two bodies");
            tokio::task::yield_now().await;
            inside.fetch_sub(1, Ordering::SeqCst);
        };
        calls.spawn(lock.run(body));
    }
    let all = async {
        while let Some(ended) = calls.join_next().await {
            ended.unwrap().unwrap();
        }
    };
    soon(all).await;
    locks.shutdown().await;
    let last = fixture.other().lock(&*row).acquire();
    soon(last).await.unwrap().release().await.unwrap();
}

pub async fn kept_locks_are_released_with_their_manager(fixture: Fixture) {
    for ends_by_shutdown in [true, false] {
        let (locks, row) = (fixture.another().await, fixture.key("row"));
        is_kept(&fixture, &locks, || lazy(&locks, &row)).await;
        match ends_by_shutdown {
            true => soon(locks.shutdown()).await,
            false => drop(locks),
        }
        fixture.until_free(&row).await;
    }
}

/// Guards that outlive their manager keep nothing.
pub async fn last_guard_of_a_manager_keeps_nothing(fixture: Fixture) {
    let (locks, row) = (fixture.another().await, fixture.key("row"));
    is_kept(&fixture, &locks, || lazy(&locks, &row)).await;
    let guard = lazy(&locks, &row).acquire().await.unwrap();
    drop(locks);
    drop(guard);
    fixture.until_free(&row).await;
}

/// Whoever wants it back need not wait for a tenure, nor for a caller who waits.
pub async fn revoked_kept_lock_is_given_back(fixture: Fixture) {
    if !fixture.keeps() || !fixture.hears_asks() {
        return;
    }
    let config = fixture.config().report(Report::Live);
    let (locks, row) = (fixture.connect(config).await, fixture.key("row"));
    is_kept(&fixture, &locks, || lazy(&locks, &row)).await;
    let revoke = fixture.other().revoke(&*row).grace(PATIENCE);
    let revoked = soon(revoke.into_future()).await.unwrap();
    assert!(matches!(revoked, Revocation::Stopped { .. }), "{revoked:?}");
    assert_eq!((locks.stats().kept, locks.stats().lost), (0, 0));
    assert!(!fixture.is_held(&row).await);
    locks.shutdown().await;
}

/// No caller has lost anything.
pub async fn lost_kept_lock_is_dropped_in_silence(fixture: Fixture) {
    let told = Arc::new(AtomicU64::new(0));
    let tells = told.clone();
    let config = fixture.config().on_event(move |event| {
        if matches!(event, LockEvent::Lost { .. }) {
            tells.fetch_add(1, Ordering::SeqCst);
        }
    });
    let (locks, row, ttl) = (
        fixture.connect(config).await,
        fixture.key("row"),
        fixture.renewed_lease(),
    );
    let lock = || lazy(&locks, &row).ttl(ttl);
    is_kept(&fixture, &locks, lock).await;
    fixture.deleted(&row);
    let other = fixture.other().lock(&*row).ttl(TTL);
    let other = soon(other.acquire()).await.unwrap();
    until(|| locks.stats().kept == 0).await;
    let mine = tokio::spawn(lock().acquire());
    tokio::time::sleep(millis(20)).await;
    assert!(!mine.is_finished());
    other.release().await.unwrap();
    let mine = soon(mine).await.unwrap().unwrap();
    mine.release().await.unwrap();
    assert_eq!(told.load(Ordering::SeqCst), 0);
    locks.shutdown().await;
}

pub async fn kept_locks_are_told_and_counted(fixture: Fixture) {
    let (config, mut told) = Told::by(fixture.config());
    let locks = fixture.connect(config).await;
    let (held, kept) = (fixture.key("held"), fixture.key("kept"));
    let keeps = is_kept(&fixture, &locks, || lazy(&locks, &held)).await;
    let count = u64::from(keeps);
    let before = locks.stats();
    assert_eq!((before.kept, before.resumed > 0), (count, keeps));
    let guard = lazy(&locks, &held).acquire().await.unwrap();
    let stats = locks.stats();
    assert_eq!((stats.kept, stats.held), (0, 1));
    assert_eq!(stats.resumed, before.resumed + count);
    assert_eq!(stats.acquired_locally, stats.resumed);

    let waits = fixture.other().lock(&*held).ttl(TTL);
    let waiter = tokio::spawn(waits.acquire());
    if keeps {
        told.until(|line| line == format!("recalled {held} by another"))
            .await;
    }
    // The waiter's polls repeat the recall.
    tokio::time::sleep(millis(200)).await;
    assert_eq!(locks.stats().recalled, count);
    guard.release().await.unwrap();
    let next = soon(waiter).await.unwrap().unwrap();
    next.release().await.unwrap();

    is_kept(&fixture, &locks, || lazy(&locks, &kept)).await;
    assert_eq!(locks.stats().kept, count);
    let waits = fixture.other().lock(&*kept).ttl(TTL);
    let next = soon(waits.acquire()).await.unwrap();
    if keeps {
        // It may be told just after the release.
        told.until(|line| line == format!("recalled {kept} by another"))
            .await;
    }
    let stats = locks.stats();
    assert_eq!((stats.kept, stats.recalled), (0, 2 * count));
    next.release().await.unwrap();

    let acquired = |resumed: &str| format!("acquired ? None locally={keeps}{resumed}");
    let (held, kept) = (told.about(&held), told.about(&kept));
    let released = "released confirmed=true".to_owned();
    if keeps {
        let recalled = "recalled by another".to_owned();
        let last = [acquired(" resumed"), recalled.clone(), released.clone()];
        assert!(held.ends_with(&last), "{held:?}");
        assert!(kept.ends_with(&[released, recalled]), "{kept:?}");
    } else {
        let once = [acquired(""), released];
        assert_eq!((held, &kept), ([&once[..], &once].concat(), &once.to_vec()));
    }
    locks.shutdown().await;
}

pub async fn locks_beyond_the_bound_are_released(fixture: Fixture) {
    let locks = fixture.connect(fixture.config().max_kept(2)).await;
    let key = |n: usize| fixture.key(&n.to_string());
    if !is_kept(&fixture, &locks, || lazy(&locks, &key(0))).await {
        return locks.shutdown().await;
    }
    for n in 1..4 {
        call(lazy(&locks, &key(n))).await;
    }
    let mut held = Vec::new();
    for n in 0..4 {
        held.push(fixture.is_held(&key(n)).await);
    }
    assert_eq!(held, [true, true, false, false]);
    call(locks.lock(key(0)).ttl(TTL)).await;
    call(lazy(&locks, &key(3))).await;
    assert!(fixture.is_held(&key(3)).await && !fixture.is_held(&key(0)).await);
    locks.shutdown().await;
}

/// A task whose calls never wait would otherwise keep its thread for itself.
pub async fn calls_that_need_no_request_let_other_tasks_run(fixture: Fixture) {
    let (locks, row) = (fixture.another().await, fixture.key("row"));
    is_kept(&fixture, &locks, || lazy(&locks, &row)).await;
    let (lock, runs) = (lazy(&locks, &row), AtomicBool::new(false));
    let calls = async {
        for _ in 0..20_000 {
            lock.clone().run(async |_| ()).await.unwrap();
            if runs.load(Ordering::SeqCst) {
                return;
            }
        }
        panic!("no call has waited");
    };
    tokio::join!(calls, async { runs.store(true, Ordering::SeqCst) });
    locks.shutdown().await;
}
