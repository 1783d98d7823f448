//! Members that come back empty.

use std::time::Duration;

use lock_runtime::LockError;

use super::members::Members;
use crate::support::time::{NOISE, comes_true, eventually, millis, within};

/// One after the other comes back with nothing, and is given what a majority has. In the end none is
/// left that has had the lock all along.
#[tokio::test]
async fn who_forgets_is_told_again_while_the_others_remember() {
    let mut members = Members::start(3);
    let locks = members.connect().await;
    let lock = locks.lock("door").ttl(millis(1500)).acquire();
    let guard = lock.await.unwrap();
    let token = guard.fencing_token().await.unwrap();
    members.until_held_by("door", &[0, 1, 2], NOISE);
    for forgetful in 0..3 {
        members.0[forgetful].kill();
        members.0[forgetful].restart();
        assert!(!members.0[forgetful].exists("lock:door"));
        members.until_held_by("door", &[0, 1, 2], millis(1500) + NOISE);
        assert!(guard.is_valid());
        let other = members.connect().await;
        assert!(other.lock("door").try_acquire().await.unwrap().is_none());
    }
    guard.release().await.unwrap();
    members.until_held_by("door", &[], NOISE);
    let next = locks.lock("door").acquire().await.unwrap();
    assert!(next.fencing_token().await.unwrap() > token);
    next.release().await.unwrap();
}

/// Why a member that has forgotten must stay away for as long as a lease may last. Step by step: the first
/// holder has a majority; half of it forgets; the second holder gets another majority. The fencing
/// token tells them apart.
#[tokio::test]
async fn a_majority_that_forgets_and_votes_again_gives_two_holders() {
    let mut members = Members::start(3);
    let (locks, other) = (members.connect().await, members.connect().await);
    let first = locks.lock("door").acquire().await.unwrap();
    let token = first.fencing_token().await.unwrap();
    members.until_held_by("door", &[0, 1, 2], NOISE);
    assert!(other.lock("door").try_acquire().await.unwrap().is_none());
    // Two at once, and sooner than the first holder's next renewal, in ten seconds.
    for forgetful in [0, 1] {
        members.0[forgetful].kill();
        members.0[forgetful].restart();
    }
    let lock = other.lock("door").wait(millis(5000));
    let second = lock.acquire().await.unwrap();
    assert!(first.is_valid() && second.is_valid(), "two hold it");
    assert!(second.fencing_token().await.unwrap() > token);
    // The first learns it when it asks, once it has a connection to each member again: what goes
    // unanswered may have freed it.
    loop {
        let third = locks.lock("window").acquire().await.unwrap();
        let reached = comes_true(millis(200), || members.holding("window").len() == 3);
        third.release().await.unwrap();
        if reached {
            break;
        }
    }
    assert!(first.release().await.unwrap_err().is_lost());
    assert!(second.is_valid());
    second.release().await.unwrap();
    members.until_held_by("door", &[], NOISE);
}

/// The rule that prevents it: they come back when every lease that they may have forgotten has ended.
#[tokio::test]
async fn a_majority_that_forgets_and_stays_away_long_enough_gives_one_holder() {
    const TTL: Duration = millis(1500);

    let mut members = Members::start(3);
    let (locks, other) = (members.connect().await, members.connect().await);
    let first = locks.lock("door").ttl(TTL).acquire().await.unwrap();
    members.until_held_by("door", &[0, 1, 2], NOISE);
    for forgetful in [0, 1] {
        members.0[forgetful].kill();
    }
    let waiting = other.lock("door").ttl(TTL).wait(millis(20_000)).acquire();
    let waiting = tokio::spawn(waiting);
    within(TTL + NOISE, first.lost()).await;
    tokio::time::sleep(TTL).await;
    assert!(!waiting.is_finished(), "one of three is no majority");
    members.0[0].restart();
    members.0[1].restart();
    let second = within(TTL + millis(3000), waiting).await.unwrap().unwrap();
    assert!(!first.is_valid() && second.is_valid());
    let lost = first.release().await.unwrap_err();
    assert!(matches!(lost, LockError::Lost { .. }), "{lost}");
    second.release().await.unwrap();
}

/// A member that is paused forgets nothing, and may come back at any time.
#[tokio::test]
async fn a_majority_that_is_paused_keeps_what_it_has() {
    let mut members = Members::start(3);
    let (locks, other) = (members.connect().await, members.connect().await);
    let first = locks.lock("door").acquire().await.unwrap();
    members.until_held_by("door", &[0, 1, 2], NOISE);
    members.0[0].pause();
    members.0[1].pause();
    let error = other.lock("door").try_acquire().await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    members.0[0].resume();
    members.0[1].resume();
    eventually(millis(3000) + NOISE, "they answer", || {
        members.0[0].exists("lock:door")
    });
    let busy = other.lock("door").wait(millis(1000)).acquire().await;
    assert!(busy.unwrap_err().is_busy());
    first.release().await.unwrap();
    members.until_held_by("door", &[], millis(2000) + NOISE);
}
