//! Two of five members are dead, and one of the others is stopped now and then, while a few processes
//! compete. What they believed is looked at afterwards: no two ever held one lock.
//!
//! `LOCK_SECONDS=60` has it go on for a minute.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use lock_runtime::{Config, LockManager};
use tokio::task::JoinSet;

use crate::members::Members;
use crate::support::dice::Dice;
use crate::support::history::{Belief, believe, disorder, history, overlaps};
use crate::support::time::millis;
use crate::support::worker::{Worker, arguments, block_on, next_order, tell};

const PROCESSES: usize = 3;
const TASKS: usize = 3;
const KEYS: u64 = 2;
/// Ends while a member is stopped.
const TTL: Duration = millis(1200);
const STOPPED: Duration = millis(2000);
const LONG: Duration = Duration::from_secs(60);

async fn compete(locks: &LockManager, dice: &mut Dice) {
    let key = dice.roll(KEYS);
    let lock = locks.lock(format!("door:{key}")).ttl(TTL);
    let patience = millis(dice.roll(600));
    let acquired = match dice.roll(4) {
        0 => lock.try_acquire().await.ok().flatten(),
        1 => {
            let acquired = tokio::time::timeout(patience, lock.wait(LONG).acquire());
            acquired.await.ok().and_then(Result::ok)
        }
        _ => lock.wait(patience).acquire().await.ok(),
    };
    match acquired {
        Some(guard) => {
            believe(key, &guard, dice, true).await;
            match dice.one_in(2) {
                true => drop(guard),
                false => drop(guard.release().await),
            }
        }
        None => tokio::time::sleep(millis(dice.roll(10))).await,
    }
}

fn work(urls: &str, seed: &str) {
    let over = Arc::new(AtomicBool::new(false));
    let mut dice = Dice::with(seed.parse().unwrap());
    block_on(async {
        let locks = LockManager::connect(Config::quorum(urls.split(' ')));
        let locks = locks.await.unwrap();
        tell("ready");
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            let (locks, over, mut dice) = (locks.clone(), over.clone(), dice.split());
            tasks.spawn(async move {
                while !over.load(Relaxed) {
                    compete(&locks, &mut dice).await;
                }
            });
        }
        tokio::task::spawn_blocking(next_order).await.unwrap();
        over.store(true, Relaxed);
        tasks.join_all().await;
        locks.shutdown().await;
        tell("over");
    });
}

#[test]
fn no_two_hold_one_lock() {
    if let Some(arguments) = arguments() {
        return work(&arguments[0], &arguments[1]);
    }
    let seconds = std::env::var("LOCK_SECONDS").ok();
    let seconds = seconds.and_then(|seconds| seconds.parse().ok());
    let mut members = Members::start(5);
    let urls: Vec<_> = members.0.iter().map(|server| server.url()).collect();
    let mut dice = Dice::new();
    let mut start = || {
        let seed = dice.roll(u64::MAX).to_string();
        let worker = Worker::start(no_two_hold_one_lock, &[&urls.join(" "), &seed]);
        worker.expect("ready", LONG);
        worker
    };
    let mut workers: Vec<_> = (0..PROCESSES).map(|_| start()).collect();
    members.0[1].kill();
    members.0[3].kill();
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(9));
    let mut stops = 0;
    while Instant::now() < end {
        std::thread::sleep(millis(500 + dice.roll(1500)));
        let alive = [0, 2, 4][dice.roll(3) as usize];
        members.0[alive].pause();
        std::thread::sleep(STOPPED);
        members.0[alive].resume();
        stops += 1;
    }
    // All is well for a moment, so that progress can be seen.
    std::thread::sleep(millis(1500));
    let mut told = Vec::new();
    for (number, worker) in workers.iter_mut().enumerate() {
        worker.order("end");
        loop {
            let event = worker.event(LONG).expect("the worker comes to its end");
            match Belief::read(&event, number) {
                Some(belief) => told.push(belief),
                None => break assert_eq!(event, "over"),
            }
        }
        worker.succeeds(LONG);
    }
    let history = history(told);
    let fenced = history.iter().filter(|belief| belief.fence.is_some());
    println!(
        "{} holds, {} tokens, {stops} stops of {STOPPED:?}",
        history.len(),
        fenced.count()
    );
    assert!(overlaps(&history).is_empty(), "{:?}", overlaps(&history));
    assert!(disorder(&history).is_empty(), "{:?}", disorder(&history));
    assert!(stops > 1 && history.len() > 50, "too little happened");
}
