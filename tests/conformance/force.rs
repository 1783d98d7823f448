//! Taking a lock from a holder that does not give it up.

use std::time::Duration;

use lock_runtime::Revocation;

use super::fixture::Fixture;
use super::revoke::{LONG, held, holder, listening, lock};
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{millis, soon};

pub async fn force_takes_the_lock_from_a_process_that_cannot_hear(fixture: Fixture) {
    let Some((network, locks)) = fixture.over_a_network().await else {
        return;
    };
    let (other, key) = (fixture.other(), fixture.key("row"));
    let guard = held(&locks, &key).await;
    let before = guard.fencing_token().await.unwrap();
    network.each(Proxy::black_hole);
    let next = tokio::spawn(lock(other, &key).acquire());
    fixture.until_waiting(&key, 1).await;
    let asked = other.revoke(&*key).grace(millis(100)).await.unwrap();
    assert!(matches!(asked, Revocation::NotStopped { .. }), "{asked:?}");
    assert!(!next.is_finished());
    let taken = other.revoke(&*key).grace(Duration::ZERO).force().await;
    let taken = taken.unwrap();
    let Revocation::Taken { fencing_token, .. } = taken else {
        panic!("{taken:?}");
    };
    assert!(fencing_token > before, "{fencing_token} > {before}");
    let next = soon(next).await.unwrap().unwrap();
    let after = next.fencing_token().await.unwrap();
    assert!(after > fencing_token, "{after} > {fencing_token}");
    network.each(Proxy::heal);
    // Its renewal finds another owner, or its lease ends before.
    soon(guard.lost()).await;
    drop(guard);
    assert!(next.is_valid() && fixture.is_held(&key).await);
    next.release().await.unwrap();
    fixture.until_free(&key).await;
    soon(locks.shutdown()).await;
}

pub async fn force_takes_the_lock_of_a_body_that_does_not_stop(fixture: Fixture) {
    let (locks, other) = (listening(&fixture).await, fixture.other());
    let key = fixture.key("row");
    let guard = held(&locks, &key).await;
    let before = guard.fencing_token().await.unwrap();
    let revoke = other.revoke(&*key).grace(millis(1200)).force();
    let taken = soon(revoke.into_future()).await.unwrap();
    let Revocation::Taken { fencing_token, .. } = taken else {
        panic!("{taken:?}");
    };
    assert!(fencing_token > before, "{fencing_token} > {before}");
    let next = held(other, &key).await;
    assert!(next.fencing_token().await.unwrap() > fencing_token);
    soon(guard.lost()).await;
    drop(guard);
    // The release of the one that lost it touches nothing.
    locks.shutdown().await;
    assert!(next.is_valid() && fixture.is_held(&key).await);
    next.release().await.unwrap();
    fixture.until_free(&key).await;
}

pub async fn lock_of_another_client_is_taken_by_force_alone(fixture: Fixture) {
    let (locks, other) = (listening(&fixture).await, fixture.other());
    let key = fixture.key("row");
    let lock = lock(&locks, &key).ttl(fixture.renewed_lease());
    let guard = lock.acquire().await.unwrap();
    if !fixture.stolen(&key) {
        return;
    }
    soon(guard.lost()).await;
    drop(guard);
    let foreign = holder(other, &key).await;
    assert_eq!(foreign.process(), None);
    let asked = other.revoke(&*key).grace(LONG).await.unwrap();
    assert!(matches!(asked, Revocation::NotStopped { .. }), "{asked:?}");
    let wrong = other.revoke(&*key).token("another").force().await.unwrap();
    assert_eq!(wrong, Revocation::NotHeld);
    assert_eq!(holder(other, &key).await.token(), foreign.token());
    let taken = other.revoke(&*key).holder(&foreign).force().await.unwrap();
    assert!(matches!(taken, Revocation::Taken { .. }), "{taken:?}");
    fixture.until_free(&key).await;
    locks.shutdown().await;
}
