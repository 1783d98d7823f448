//! Getting a lock back from whoever holds it.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lock_runtime::{
    ClaimInfo, Lock, LockError, LockEvent, LockGuard, LockManager, LostCause, Report, Revocation,
    Revoke,
};
use tokio::task::JoinHandle;

use super::fixture::{Fixture, is_refused};
use lock_test_support::time::{PATIENCE, millis, soon, until};

pub const LONG: Duration = Duration::from_secs(60);
pub const TTL: Duration = millis(20_000);

/// Connects a process that hears what others ask.
pub async fn listening(fixture: &Fixture) -> LockManager {
    fixture.connect(fixture.config().report(Report::Live)).await
}

pub fn lock(locks: &LockManager, key: &str) -> Lock {
    locks.lock(key).ttl(TTL)
}

pub async fn held(locks: &LockManager, key: &str) -> LockGuard {
    lock(locks, key).acquire().await.unwrap()
}

/// Starts a body without an end, and waits until it runs.
async fn endless(locks: &LockManager, key: &str) -> JoinHandle<Result<(), LockError>> {
    let (begun, runs) = tokio::sync::oneshot::channel();
    let body = async move |_: &LockGuard| {
        begun.send(()).unwrap();
        pending().await
    };
    let call = tokio::spawn(lock(locks, key).run(body));
    soon(runs).await.unwrap();
    call
}

/// Returns who holds the lock, once that is one.
pub async fn holder(locks: &LockManager, key: &str) -> ClaimInfo {
    let look = async {
        loop {
            let found = locks.inspect(key).await.unwrap();
            if let [holder] = found.holders() {
                return holder.clone();
            }
            tokio::time::sleep(millis(5)).await;
        }
    };
    soon(look).await
}

fn is_revoked<T>(ended: &Result<T, LockError>) -> bool {
    let cause = LostCause::Revoked;
    matches!(ended, Err(LockError::Lost { cause: found, .. }) if *found == cause)
}

/// Asks for the lock for as long as a starved machine may need. The task ends when the holder has stopped.
fn asked(revoke: Revoke) -> JoinHandle<()> {
    tokio::spawn(async {
        let revoked = revoke.grace(PATIENCE).await.unwrap();
        assert!(matches!(revoked, Revocation::Stopped { .. }), "{revoked:?}");
    })
}

/// Waits until the guard's lock is revoked, and gives it up.
async fn obeyed(guard: LockGuard) {
    assert!(is_revoked::<()>(&Err(soon(guard.lost()).await)));
}

pub async fn revoked_body_is_canceled_and_the_next_enters(fixture: Fixture) {
    if !fixture.hears_asks() {
        return;
    }
    let told = Arc::new(AtomicU32::new(0));
    let tells = told.clone();
    let config = fixture
        .config()
        .report(Report::Live)
        .on_event(move |event| {
            if let LockEvent::Revoked { by, reason, .. } = event {
                assert_eq!((*by, *reason), ("ann\tb", "stuck\nsince the deploy"));
                tells.fetch_add(1, Ordering::Relaxed);
            }
        });
    let (locks, other) = (fixture.connect(config).await, fixture.other().clone());
    let key = fixture.key("row");
    let inside = Arc::new(AtomicU32::new(0));
    let enters = inside.clone();
    let (begun, runs) = tokio::sync::oneshot::channel();
    let body = async move |_: &LockGuard| {
        struct Inside(Arc<AtomicU32>);
        impl Drop for Inside {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        enters.fetch_add(1, Ordering::SeqCst);
        let _inside = Inside(enters);
        begun.send(()).unwrap();
        pending::<()>().await
    };
    let stuck = tokio::spawn(lock(&locks, &key).run(body));
    soon(runs).await.unwrap();
    let (waits, next_key, next_inside) = (other.clone(), key.clone(), inside.clone());
    let next = tokio::spawn(async move {
        let guard = held(&waits, &next_key).await;
        assert_eq!(next_inside.load(Ordering::SeqCst), 0, "two bodies at once");
        guard
    });
    fixture.until_waiting(&key, 1).await;
    let revoke = other
        .revoke(&*key)
        .by("ann\tb")
        .reason("stuck\nsince the deploy");
    soon(asked(revoke)).await.unwrap();
    let ended = soon(stuck).await.unwrap();
    assert!(is_revoked(&ended), "{ended:?}");
    until(|| told.load(Ordering::Relaxed) > 0).await;
    assert_eq!(told.load(Ordering::Relaxed), 1);
    let next = soon(next).await.unwrap();
    next.release().await.unwrap();
    assert_eq!(other.revoke(&*key).await.unwrap(), Revocation::NotHeld);
    locks.shutdown().await;
}

/// Its owner may still work, so the lease is renewed.
pub async fn guard_that_is_not_dropped_keeps_a_revoked_lock(fixture: Fixture) {
    if !fixture.hears_asks() {
        return;
    }
    let (locks, other) = (listening(&fixture).await, fixture.other());
    let key = fixture.key("row");
    let lock = locks.lock(&*key).ttl(fixture.renewed_lease());
    let guard = lock.acquire().await.unwrap();
    let revoke = asked(other.revoke(&*key));
    let loss = soon(guard.lost()).await;
    assert!(is_revoked::<()>(&Err(loss)));
    assert!(!revoke.is_finished() && fixture.is_held(&key).await);
    let revoked = other.revoke(&*key).grace(millis(60)).await.unwrap();
    let Revocation::NotStopped { holders, .. } = revoked else {
        panic!("{revoked:?}");
    };
    assert_eq!(holders[0].process(), Some(locks.process_id()));
    let renewed = locks.stats().renewed;
    until(|| locks.stats().renewed > renewed).await;
    assert!(fixture.is_held(&key).await);
    drop(guard);
    soon(revoke).await.unwrap();
    fixture.until_free(&key).await;
    locks.shutdown().await;
}

/// Returns the revocation of a lock whose guard is asked for it, and not dropped.
async fn in_vain(guard: &LockGuard, revoke: Revoke) -> JoinHandle<Revocation> {
    let revoke = revoke.grace(PATIENCE);
    let revoke = tokio::spawn(async { revoke.await.unwrap() });
    soon(guard.lost()).await;
    revoke
}

fn is_unconfirmed(revoked: &Revocation) -> bool {
    matches!(revoked, Revocation::Unconfirmed { .. })
}

pub async fn holder_whose_lock_another_takes_is_not_said_to_have_stopped(fixture: Fixture) {
    if !fixture.hears_asks() {
        return;
    }
    let (locks, one) = (listening(&fixture).await, fixture.other());
    let (two, key) = (fixture.another().await, fixture.key("row"));
    let guard = held(&locks, &key).await;
    let revoke = in_vain(&guard, one.revoke(&*key)).await;
    let taken = two.revoke(&*key).grace(Duration::ZERO).force().await;
    let taken = taken.unwrap();
    assert!(matches!(taken, Revocation::Taken { .. }), "{taken:?}");
    let revoked = soon(revoke).await.unwrap();
    assert!(is_unconfirmed(&revoked), "{revoked:?}");
    drop(guard);
    tokio::join!(locks.shutdown(), two.shutdown());
}

pub async fn holder_whose_lease_has_ended_is_not_said_to_have_stopped(fixture: Fixture) {
    if !fixture.hears_asks() {
        return;
    }
    let (locks, other) = (listening(&fixture).await, fixture.other());
    let key = fixture.key("row");
    let once = locks.lock(&*key).ttl(millis(5000)).renew(false);
    let guard = once.acquire().await.unwrap();
    let revoke = in_vain(&guard, other.revoke(&*key)).await;
    let revoked = soon(revoke).await.unwrap();
    assert!(is_unconfirmed(&revoked), "{revoked:?}");
    drop(guard);
    locks.shutdown().await;
}

/// The same subscription brings it grants and asks, or it begins to listen when it waits.
pub async fn process_that_has_waited_hears_asks(fixture: Fixture) {
    if !fixture.hears_asks() {
        return;
    }
    let (locks, other) = (fixture.another().await, fixture.other());
    let key = fixture.key("row");
    let before = held(other, &key).await;
    // The watchdog begins to listen, too, but only with the first renewal.
    let once = lock(&locks, &key).renew(false);
    let waits = tokio::spawn(once.acquire());
    fixture.until_waiting(&key, 1).await;
    before.release().await.unwrap();
    let guard = soon(waits).await.unwrap().unwrap();
    let revoke = asked(other.revoke(&*key));
    obeyed(guard).await;
    soon(revoke).await.unwrap();
    locks.shutdown().await;
}

pub async fn one_of_several_holders_is_revoked(fixture: Fixture) {
    if !fixture.hears_asks() {
        return;
    }
    let (one, two) = (listening(&fixture).await, listening(&fixture).await);
    let (other, key) = (fixture.other(), fixture.key("row"));
    let read = async |locks| lock(locks, &key).read().acquire().await.unwrap();
    let guards = [read(&one).await, read(&two).await];
    let refused = other.revoke(&*key).await.unwrap_err();
    assert!(is_refused(&refused, "token"), "{refused}");
    let found = other.inspect(&key).await.unwrap();
    let holders = found.holders().iter();
    let of_two = |it: &&ClaimInfo| it.process() == Some(two.process_id());
    let token = holders.clone().find(of_two).unwrap().token().to_owned();
    let [first, second] = guards;
    let revoke = asked(other.revoke(&*key).token(token));
    obeyed(second).await;
    soon(revoke).await.unwrap();
    assert!(first.is_valid());

    // All readers of a process stop together.
    let joined = read(&one).await;
    let revoke = asked(other.revoke(&*key).all());
    for guard in [first, joined] {
        obeyed(guard).await;
    }
    soon(revoke).await.unwrap();
    fixture.until_free(&key).await;
    tokio::join!(one.shutdown(), two.shutdown());
}

pub async fn lock_that_was_passed_on_is_not_revoked_from_the_next_body(fixture: Fixture) {
    if !fixture.hears_asks() {
        return;
    }
    let (locks, other) = (listening(&fixture).await, fixture.other());
    let key = fixture.key("row");
    let stuck = held(&locks, &key).await;
    let described = async {
        loop {
            other.ask_for_reports().await.unwrap();
            let holder = holder(other, &key).await;
            if holder.held_for().is_some() {
                return holder;
            }
        }
    };
    let seen = soon(described).await;
    let next = tokio::spawn(lock(&locks, &key).acquire());
    until(|| locks.stats().waiting > 0).await;
    stuck.release().await.unwrap();
    let next = soon(next).await.unwrap().unwrap();
    if holder(other, &key).await.token() != seen.token() {
        // It went over the server.
        return;
    }
    // Nor by force, as soon as the process has told it.
    let revoke = other
        .revoke(&*key)
        .holder(&seen)
        .grace(PATIENCE * 2)
        .force();
    let revoked = revoke.await.unwrap();
    assert!(
        matches!(revoked, Revocation::NotHeld | Revocation::Stopped { .. }),
        "{revoked:?}"
    );
    assert!(next.is_valid());
    let revoke = asked(other.revoke(&*key).token(seen.token()));
    obeyed(next).await;
    soon(revoke).await.unwrap();
    locks.shutdown().await;
}

/// Its body goes on under the token of a reader.
pub async fn holder_that_is_downgraded_meanwhile_has_not_stopped(fixture: Fixture) {
    if !fixture.hears_asks() || !fixture.has_permits() {
        return;
    }
    let locks = listening(&fixture).await;
    // An answer that does not come is awaited for so long.
    let config = fixture.config().command_timeout(millis(500));
    let other = fixture.connect(config).await;
    for turn in 0..8 {
        let key = fixture.key(&format!("row {turn}"));
        let writer = held(&locks, &key).await;
        let revoke = other.revoke(&*key).grace(millis(200)).into_future();
        let (revoked, reader) = soon(async { tokio::join!(revoke, writer.downgrade()) }).await;
        if let Ok(reader) = reader {
            let stopped = matches!(revoked, Ok(Revocation::Stopped { .. }));
            assert!(!stopped || !reader.is_valid(), "turn {turn}: {revoked:?}");
            let _ = reader.release().await;
        }
    }
    locks.shutdown().await;
    other.shutdown().await;
}

/// None of the keys that it has stays behind.
pub async fn call_for_several_keys_gives_up_any_that_it_has(fixture: Fixture) {
    if !fixture.hears_asks() {
        return;
    }
    let (locks, other) = (listening(&fixture).await, fixture.other());
    for given_up in [0, 1] {
        let keys = ["a", "b", "z"].map(|name| fixture.key(&format!("{name} {given_up}")));
        let last = held(other, &keys[2]).await;
        let several = locks.lock_all(keys.clone()).ttl(TTL).wait(LONG);
        let call = tokio::spawn(several.acquire());
        fixture.until_waiting(&keys[2], 1).await;
        soon(asked(other.revoke(&*keys[given_up]))).await.unwrap();
        last.release().await.unwrap();
        if let Ok(guard) = soon(call).await.unwrap() {
            assert!(guard.is_valid(), "key {given_up}");
        }
    }
    locks.shutdown().await;
}

pub async fn a_hundred_holders_of_one_process_are_known_to_have_stopped(fixture: Fixture) {
    if !fixture.hears_asks() || !fixture.has_permits() {
        return;
    }
    let (locks, other) = (listening(&fixture).await, fixture.other());
    let key = fixture.key("row");
    let mut guards = Vec::new();
    for _ in 0..100 {
        guards.push(lock(&locks, &key).permits(100).acquire().await.unwrap());
    }
    let revoke = asked(other.revoke(&*key).all());
    for guard in guards {
        obeyed(guard).await;
    }
    soon(revoke).await.unwrap();
    locks.shutdown().await;
}

pub async fn revoked_key_ends_nested_bodies_and_those_of_several_keys(fixture: Fixture) {
    if !fixture.hears_asks() {
        return;
    }
    let (locks, other) = (listening(&fixture).await, fixture.other());
    let keys = ["one", "two"].map(|name| fixture.key(name));
    let several = locks.lock_all(keys.clone()).ttl(TTL);
    let inner = keys[1].clone();
    let (begun, runs) = tokio::sync::oneshot::channel();
    let manager = locks.clone();
    let body = async move |_: &LockGuard| {
        let nested = lock(&manager, &inner).reentrant(true);
        nested
            .run(async |_| {
                begun.send(()).unwrap();
                pending::<()>().await
            })
            .await
    };
    let call = tokio::spawn(several.run(body));
    soon(runs).await.unwrap();
    soon(asked(other.revoke(&*keys[1]))).await.unwrap();
    let ended = soon(call).await.unwrap();
    assert!(
        is_revoked(&ended) || ended.as_ref().is_ok_and(is_revoked),
        "{ended:?}"
    );
    for key in &keys {
        fixture.until_free(key).await;
    }
    locks.shutdown().await;
}

pub async fn guard_without_its_manager_is_revoked(fixture: Fixture) {
    if !fixture.hears_asks() {
        return;
    }
    let (locks, other) = (listening(&fixture).await, fixture.other());
    let key = fixture.key("row");
    let guard = held(&locks, &key).await;
    drop(locks);
    let revoke = asked(other.revoke(&*key));
    obeyed(guard).await;
    soon(revoke).await.unwrap();
}

pub async fn min_hold_ends_with_a_revocation(fixture: Fixture) {
    if !fixture.hears_asks() {
        return;
    }
    let (locks, other) = (listening(&fixture).await, fixture.other());
    let key = fixture.key("row");
    let guard = lock(&locks, &key).min_hold(LONG).acquire().await;
    guard.unwrap().release().await.unwrap();
    assert!(fixture.is_held(&key).await);
    soon(asked(other.revoke(&*key))).await.unwrap();
    assert!(!fixture.is_held(&key).await);
    locks.shutdown().await;
}

pub async fn downgraded_holder_is_no_longer_meant(fixture: Fixture) {
    if !fixture.has_permits() {
        return;
    }
    let (locks, other) = (listening(&fixture).await, fixture.other());
    let key = fixture.key("row");
    let writer = held(&locks, &key).await;
    let seen = holder(other, &key).await;
    let reader = writer.downgrade().await.unwrap();
    let revoked = other.revoke(&*key).holder(&seen).await.unwrap();
    assert_eq!(revoked, Revocation::NotHeld);
    assert!(reader.is_valid());
    reader.release().await.unwrap();
    locks.shutdown().await;
}

pub async fn nobody_hears_of_a_lock_that_does_not_exist(fixture: Fixture) {
    if !fixture.hears_asks() {
        return;
    }
    let (locks, other) = (listening(&fixture).await, fixture.other());
    let (key, free) = (fixture.key("row"), fixture.key("free"));
    let call = endless(&locks, &key).await;
    assert_eq!(
        other.revoke(&*free).force().await.unwrap(),
        Revocation::NotHeld
    );
    let seen = holder(other, &key).await;
    let wrong = other.revoke(&*free).holder(&seen).force().await.unwrap();
    assert_eq!(wrong, Revocation::NotHeld);
    for invalid in ["", ":reserved"] {
        let refused = other.revoke(invalid).await.unwrap_err();
        assert!(matches!(refused, LockError::InvalidKey { .. }), "{refused}");
    }
    assert!(!call.is_finished());
    soon(asked(other.revoke(&*key))).await.unwrap();
    assert!(is_revoked(&soon(call).await.unwrap()));
    locks.shutdown().await;
}
