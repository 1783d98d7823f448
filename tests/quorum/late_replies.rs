//! Replies that arrive too late, or never.

use super::members::{Members, through};
use lock_test_support::manager::{connected, use_once, warmed_up};
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{PATIENCE, begin, millis, soon};

/// A majority grants the lock, but its replies arrive after the attempt has ended.
#[tokio::test]
async fn late_votes_leave_no_lock() {
    let members = Members::start(3);
    let proxies = members.proxies();
    let locks = warmed_up(through(&proxies).command_timeout(millis(1000))).await;
    for hole in [Proxy::hold_replies, Proxy::black_hole] {
        hole(&proxies[0]);
        hole(&proxies[2]);
        let error = soon(locks.lock("door").try_acquire()).await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        proxies[0].heal();
        proxies[2].heal();
        members.until_held_by("door", &[]);
        use_once(&locks, "door").await;
        members.until_held_by("door", &[]);
    }
    soon(locks.shutdown()).await;
}

/// A second try to release does not find the lock that the first one released; it still counts as released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_with_lost_replies_reports_success() {
    let members = Members::start(3);
    let proxies = members.proxies();
    let locks = connected(through(&proxies).command_timeout(PATIENCE)).await;
    let guard = locks.lock("door").acquire().await.unwrap();
    members.until_held_by("door", &[0, 1, 2]);
    // All members have the script, so that the first request releases the lock. A release is sent to a
    // member only after its reply to the vote: no earlier reply is held below.
    let warm = locks.lock("warm").acquire().await.unwrap();
    members.until_held_by("warm", &[0, 1, 2]);
    warm.release().await.unwrap();
    members.until_held_by("warm", &[]);
    let unheard = &proxies[..2];
    unheard.iter().for_each(Proxy::hold_replies);
    let release = tokio::spawn(guard.release());
    // The replies of two members may be lost only after all three have released the lock: earlier, a lost
    // reply may belong to the acquisition, and a release waits for a majority, not for all.
    members.until_held_by("door", &[]);
    unheard.iter().for_each(Proxy::lose_held_replies);
    soon(release).await.unwrap().unwrap();
    let lost: usize = proxies.iter().map(Proxy::lost_replies).sum();
    assert_eq!(lost, 2);
}

/// Calls that are dropped in flight leave no lock either.
#[tokio::test]
async fn dropped_calls_leave_no_lock() {
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
            members.until_held_by(&format!("door:{n}"), &[]);
        }
    }
    soon(locks.shutdown()).await;
}

/// A member that was silent during acquisition and release keeps no lock.
#[tokio::test]
async fn paused_member_keeps_no_released_lock() {
    let mut members = Members::start(3);
    let locks = members.connect().await;
    members.0[1].pause();
    for n in 0..20 {
        let guard = locks.lock(format!("door:{n}")).acquire().await.unwrap();
        guard.release().await.unwrap();
    }
    members.0[1].resume();
    for n in 0..20 {
        members.until_held_by(&format!("door:{n}"), &[]);
    }
}
