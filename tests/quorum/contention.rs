//! Those who come at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::members::{Members, through};
use crate::support::manager::connected;
use crate::support::time::{NOISE, Stopwatch, millis};

/// Two who know nothing of one another take a free lock at the same moment, again and again, with a
/// member away, so that each may get half of the others. Every time exactly one has it, and it takes
/// a few rounds at most.
#[tokio::test]
async fn of_two_who_try_at_once_one_has_it() {
    const TIMES: u64 = 60;

    let mut members = Members::start(5);
    members.0[4].kill();
    // Each finds others nearer.
    let proxies = [members.proxies(), members.proxies()];
    for (n, delay) in [1, 1, 4, 4, 0].into_iter().enumerate() {
        proxies[0][n].delay(millis(delay));
        proxies[1][n].delay(millis(5 - delay));
    }
    let mut both = Vec::new();
    for proxies in &proxies {
        // Nothing but the other is in anybody's way.
        let config = through(proxies).command_timeout(millis(3000));
        both.push(connected(config).await);
    }
    let asked = members.asked();
    let mut won = [0; 2];
    let mut longest = millis(0);
    for n in 0..TIMES {
        let start = Stopwatch::start();
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
        longest = longest.max(start.elapsed());
        let winners: Vec<_> = tries.iter().filter(|(_, guard)| guard.is_some()).collect();
        assert_eq!(winners.len(), 1, "one of the two has it");
        won[winners[0].0] += 1;
        for (_, guard) in tries {
            if let Some(guard) = guard {
                guard.release().await.unwrap();
            }
        }
    }
    let commands = members.asked() - asked;
    // One election and one release are eight; so are a vote in vain and what takes it back.
    let rounds = commands as f64 / TIMES as f64 / 8.0;
    println!("{won:?} won, {rounds:.1} times the commands of one alone, {longest:?} at most");
    assert!(won[0] > 0 && won[1] > 0, "{won:?}");
    assert!(rounds < 4.0, "{rounds} rounds");
    assert!(longest < millis(500) + NOISE, "{longest:?}");
}

/// Many processes, one lock, and never two in it.
#[tokio::test]
async fn who_waits_has_it_in_turn() {
    let mut members = Members::start(5);
    members.0[1].kill();
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..6 {
        let (locks, inside) = (members.connect().await, inside.clone());
        tasks.spawn(async move {
            let mut last = 0;
            for _ in 0..15 {
                let lock = locks.lock("door").wait(millis(30_000));
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
    let start = Stopwatch::start();
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    println!("90 locks in {:?}", start.elapsed());
    members.until_held_by("door", &[], NOISE);
    for server in members.0.iter().filter(|server| server.runs()) {
        assert_eq!(server.waiting("door"), 0);
    }
}
