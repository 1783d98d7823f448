//! Members that restart without their data.

use std::time::Duration;

use lock_runtime::LockError;

use super::members::Members;
use lock_test_support::time::{PATIENCE, comes_true_within, eventually, millis, soon};

/// One member after the other restarts without data and gets the lock again from the holder. In the end no
/// member has had the lock all along.
#[tokio::test]
async fn restarted_member_regains_lock_from_renewal() {
    let mut members = Members::start(3);
    let locks = members.connect().await;
    let lock = locks.lock("door").ttl(millis(12_000)).acquire();
    let guard = lock.await.unwrap();
    let token = guard.fencing_token().await.unwrap();
    members.until_held_by("door", &[0, 1, 2]);
    for forgetful in 0..3 {
        members.0[forgetful].kill();
        members.0[forgetful].restart();
        assert!(!members.0[forgetful].exists("lock:door"));
        members.until_held_by("door", &[0, 1, 2]);
        assert!(guard.is_valid());
        let other = members.connect().await;
        let taken = other.lock("door").try_acquire().await.unwrap();
        let is_valid = guard.is_valid();
        assert!(
            taken.is_none(),
            "while the first guard is valid: {is_valid}"
        );
    }
    guard.release().await.unwrap();
    members.until_held_by("door", &[]);
    let next = locks.lock("door").acquire().await.unwrap();
    assert!(next.fencing_token().await.unwrap() > token);
    next.release().await.unwrap();
}

/// Shows why a member that lost its data must stay down for the longest lease: the first holder has a
/// majority; half of that majority loses its data; the second holder gets another majority. The fencing token
/// distinguishes the two.
#[tokio::test]
async fn majority_restarted_too_early_allows_two_holders() {
    let mut members = Members::start(3);
    let (locks, other) = (members.connect().await, members.connect().await);
    let first = locks.lock("door").acquire().await.unwrap();
    let token = first.fencing_token().await.unwrap();
    members.until_held_by("door", &[0, 1, 2]);
    assert!(other.lock("door").try_acquire().await.unwrap().is_none());
    // Two members at once, before the first holder's next renewal, which is due in ten seconds.
    for forgetful in [0, 1] {
        members.0[forgetful].kill();
        members.0[forgetful].restart();
    }
    let second = other.lock("door").acquire().await.unwrap();
    assert!(first.is_valid() && second.is_valid(), "two hold it");
    assert!(second.fencing_token().await.unwrap() > token);
    // The first holder learns of the loss from its next request, once it is connected to each member again:
    // an unanswered request may have released the lock.
    loop {
        let third = locks.lock("window").acquire().await.unwrap();
        let reached = comes_true_within(millis(200), || members.holding("window").len() == 3);
        third.release().await.unwrap();
        if reached {
            break;
        }
    }
    assert!(first.release().await.unwrap_err().is_lost());
    assert!(second.is_valid());
    second.release().await.unwrap();
    members.until_held_by("door", &[]);
}

/// The rule that prevents this: the members restart after every lease that they may have lost has ended.
#[tokio::test]
async fn majority_restarted_after_lease_allows_one_holder() {
    const TTL: Duration = millis(1500);

    let mut members = Members::start(3);
    let (locks, other) = (members.connect().await, members.connect().await);
    let first = locks.lock("door").ttl(TTL).acquire().await.unwrap();
    members.until_held_by("door", &[0, 1, 2]);
    for forgetful in [0, 1] {
        members.0[forgetful].kill();
    }
    let waiting = tokio::spawn(other.lock("door").wait(2 * PATIENCE).acquire());
    soon(first.lost()).await;
    tokio::time::sleep(TTL).await;
    assert!(
        !waiting.is_finished(),
        "one of three members is not a majority"
    );
    members.0[0].restart();
    members.0[1].restart();
    let second = soon(waiting).await.unwrap().unwrap();
    assert!(!first.is_valid() && second.is_valid());
    let lost = first.release().await.unwrap_err();
    assert!(matches!(lost, LockError::Lost { .. }), "{lost}");
    second.release().await.unwrap();
}

/// A paused member loses no data, and may resume at any time.
#[tokio::test]
async fn paused_majority_keeps_lock() {
    let mut members = Members::start(3);
    let (locks, other) = (members.connect().await, members.connect().await);
    let first = locks.lock("door").acquire().await.unwrap();
    members.until_held_by("door", &[0, 1, 2]);
    members.0[0].pause();
    members.0[1].pause();
    let error = other.lock("door").wait(millis(500)).acquire().await;
    let error = error.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    members.0[0].resume();
    members.0[1].resume();
    eventually("the resumed members answer", || {
        members.0[0].exists("lock:door")
    });
    let busy = other.lock("door").wait(millis(3000)).acquire().await;
    assert!(busy.unwrap_err().is_busy());
    first.release().await.unwrap();
    members.until_held_by("door", &[]);
}
