//! Answers that come too late, or never.

use super::members::{Members, through};
use crate::support::manager::connected;
use crate::support::proxy::Proxy;
use crate::support::time::{NOISE, Stopwatch, begin, millis, within};

/// A majority grants the lock, and its answers come when nobody waits for them any more.
#[tokio::test]
async fn votes_that_are_told_too_late_leave_nothing() {
    let members = Members::start(3);
    let proxies = members.proxies();
    let locks = connected(through(&proxies)).await;
    locks
        .lock("warm")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    for hole in [Proxy::hold_replies, Proxy::black_hole] {
        hole(&proxies[0]);
        hole(&proxies[2]);
        let start = Stopwatch::start();
        let error = locks.lock("door").try_acquire().await.unwrap_err();
        assert!(
            start.elapsed() < millis(600) + NOISE,
            "{:?}",
            start.elapsed()
        );
        assert!(error.is_unavailable(), "{error}");
        proxies[0].heal();
        proxies[2].heal();
        members.until_held_by("door", &[], millis(3000));
        let next = locks.lock("door").wait(millis(3000)).acquire();
        within(millis(3000), next)
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
        members.until_held_by("door", &[], NOISE);
    }
    within(millis(2000), locks.shutdown()).await;
}

/// What is freed by a first try is not found by a second, and was ours all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_whose_answers_are_lost_is_no_loss() {
    let members = Members::start(3);
    let proxies = members.proxies();
    let locks = connected(through(&proxies)).await;
    let guard = locks.lock("door").acquire().await.unwrap();
    members.until_held_by("door", &[0, 1, 2], millis(3000));
    // All have the script, so that what they are asked first frees the lock. A member is asked to release
    // only when its vote has been heard, and so those before it: none of those is held up below.
    let warm = locks.lock("warm").acquire().await.unwrap();
    members.until_held_by("warm", &[0, 1, 2], millis(3000));
    warm.release().await.unwrap();
    members.until_held_by("warm", &[], millis(3000));
    let unheard = &proxies[..2];
    unheard.iter().for_each(Proxy::hold_replies);
    let release = tokio::spawn(guard.release());
    // The answers of two of three are lost only when all three have freed it: an answer that is lost
    // earlier may be one to the acquisition, and a release waits for a majority, not for all.
    members.until_held_by("door", &[], millis(3000));
    unheard.iter().for_each(Proxy::lose_held_replies);
    within(millis(3000), release).await.unwrap().unwrap();
    let lost: usize = proxies.iter().map(Proxy::lost_replies).sum();
    assert_eq!(lost, 2);
}

/// Calls that are dropped while they are in flight leave nothing, either.
#[tokio::test]
async fn calls_that_are_dropped_leave_nothing() {
    let members = Members::start(3);
    let proxies = members.proxies();
    let locks = connected(through(&proxies)).await;
    for slow in 0..3 {
        for proxy in &proxies[..slow] {
            proxy.hold_replies();
        }
        for n in 0..20 {
            let mut acquire = Box::pin(locks.lock(format!("door:{n}")).acquire());
            let _ = begin(&mut acquire);
            tokio::time::sleep(millis(n % 4)).await;
        }
        for proxy in &proxies {
            proxy.heal();
        }
        for n in 0..20 {
            members.until_held_by(&format!("door:{n}"), &[], millis(3000));
        }
    }
    within(millis(2000), locks.shutdown()).await;
}

/// A member that was silent when the lock was taken, and when it was released, has nothing of it.
#[tokio::test]
async fn a_member_that_slept_through_it_has_nothing() {
    let mut members = Members::start(3);
    let locks = members.connect().await;
    members.0[1].pause();
    for n in 0..20 {
        let guard = locks.lock(format!("door:{n}")).acquire().await.unwrap();
        guard.release().await.unwrap();
    }
    members.0[1].resume();
    for n in 0..20 {
        members.until_held_by(&format!("door:{n}"), &[], millis(3000));
    }
}
