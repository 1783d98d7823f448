//! Latency of a lock: that of the median member, regardless of slow and dead ones.

use std::time::Duration;

use lock_runtime::LockManager;

use super::members::{Members, through};
use lock_test_support::manager::{connected, use_once};
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{PATIENCE, millis, patient, soon};
use tokio::time::Instant;

/// The number of measurements whose median counts.
const TIMES: usize = 9;

/// Connects a manager for which a silent member is one that it may not await.
async fn endless(proxies: &[Proxy]) -> LockManager {
    connected(patient(through(proxies)).command_timeout(4 * PATIENCE)).await
}

/// One member is dead, and one is silent: no request awaits it.
#[tokio::test]
async fn only_a_majority_of_members_is_awaited() {
    let mut members = Members::start(5);
    let proxies = members.proxies();
    let locks = endless(&proxies).await;
    use_once(&locks, "door").await;
    members.0[3].kill();
    proxies[4].black_hole();
    for _ in 0..3 {
        let guard = soon(locks.lock("door").acquire()).await.unwrap();
        soon(guard.fencing_token()).await.unwrap();
        soon(guard.release()).await.unwrap();
    }
    proxies[4].heal();
    members.0[3].restart();
    soon(locks.shutdown()).await;
}

/// A release, and an immediate election: it takes as long as to acquire and release a free lock, and a waiter
/// that polls would take far longer. A silent member delays neither.
#[tokio::test]
async fn handoff_takes_two_round_trips() {
    let members = Members::start(3);
    let proxies = members.proxies();
    let both = [endless(&proxies).await, endless(&proxies).await];
    for proxy in &proxies {
        proxy.delay(millis(10));
    }
    proxies[1].black_hole();
    let (mut handoffs, mut probes) = (Vec::new(), Vec::new());
    let mut guard = both[0].lock("door").acquire().await.unwrap();
    for n in 1..=TIMES {
        let waiting = tokio::spawn(both[n % 2].lock("door").wait(2 * PATIENCE).acquire());
        tokio::time::sleep(millis(150)).await;
        let start = Instant::now();
        soon(use_once(&both[n % 2], "free")).await;
        probes.push(start.elapsed());
        let start = Instant::now();
        soon(guard.release()).await.unwrap();
        guard = soon(waiting).await.unwrap().unwrap();
        handoffs.push(start.elapsed());
    }
    guard.release().await.unwrap();
    let median = |times: &mut Vec<Duration>| {
        times.sort();
        times[TIMES / 2]
    };
    let (handoff, probe) = (median(&mut handoffs), median(&mut probes));
    println!("{handoff:?} for a handoff, {probe:?} for a free lock");
    assert!(handoff < 3 * probe, "{handoffs:?}, {probes:?}");
    proxies[1].heal();
    for locks in both {
        soon(locks.shutdown()).await;
    }
}
