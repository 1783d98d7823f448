//! Concurrent acquisitions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::members::{Members, through};
use lock_test_support::manager::connected;
use lock_test_support::time::{PATIENCE, millis, patient, soon};

/// Two independent managers repeatedly try to acquire a free lock at the same moment. One member is down, so
/// each manager may get half of the other votes. Each time exactly one of them acquires the lock, within a
/// few rounds.
#[tokio::test]
async fn concurrent_tries_elect_exactly_one_holder() {
    const TIMES: u64 = 30;

    let mut members = Members::start(5);
    members.0[4].kill();
    // Each manager is closer to different members.
    let proxies = [members.proxies(), members.proxies()];
    for (n, delay) in [1, 1, 4, 4, 0].into_iter().enumerate() {
        proxies[0][n].delay(millis(delay));
        proxies[1][n].delay(millis(5 - delay));
    }
    let mut both = Vec::new();
    for proxies in &proxies {
        // No timeout interferes.
        both.push(connected(patient(through(proxies))).await);
    }
    let asked = members.asked();
    let mut won = [0; 2];
    for n in 0..TIMES {
        let barrier = Arc::new(Barrier::new(2));
        let mut tries = JoinSet::new();
        for (who, locks) in both.iter().enumerate() {
            let (locks, barrier) = (locks.clone(), barrier.clone());
            tries.spawn(async move {
                barrier.wait().await;
                let guard = locks.lock(format!("door:{n}")).try_acquire().await;
                (who, guard.unwrap())
            });
        }
        let tries = tries.join_all().await;
        let winners: Vec<_> = tries.iter().filter(|(_, guard)| guard.is_some()).collect();
        assert_eq!(winners.len(), 1, "exactly one acquires the lock");
        won[winners[0].0] += 1;
        for (_, guard) in tries {
            if let Some(guard) = guard {
                guard.release().await.unwrap();
            }
        }
    }
    let commands = members.asked() - asked;
    // An election and a release take eight commands, as do a lost vote and its withdrawal.
    let rounds = commands as f64 / TIMES as f64 / 8.0;
    println!("{won:?} won, {rounds:.1} times the commands without contention");
    assert!(won[0] > 0 && won[1] > 0, "{won:?}");
    assert!(rounds < 4.0, "{rounds} rounds");
}

/// Many processes take turns at one lock, and never two hold it.
#[tokio::test]
async fn waiters_hold_lock_one_at_a_time() {
    let mut members = Members::start(5);
    members.0[1].kill();
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (locks, inside) = (members.connect().await, inside.clone());
        tasks.spawn(async move {
            let mut last = 0;
            for _ in 0..5 {
                let lock = locks.lock("door").wait(2 * PATIENCE);
                let guard = lock.acquire().await.unwrap();
                assert_eq!(inside.fetch_add(1, Relaxed), 0, "two hold it");
                let token = guard.fencing_token().await.unwrap();
                assert!(token > last);
                last = token;
                inside.fetch_sub(1, Relaxed);
                guard.release().await.unwrap();
            }
            locks.shutdown().await;
        });
    }
    soon(tasks.join_all()).await;
    members.until_held_by("door", &[]);
    for server in members.0.iter().filter(|server| server.runs()) {
        assert_eq!(server.waiting("door"), 0);
    }
}
