//! Four processes compete for three locks, while they are stopped and cut off at random. What they
//! believed is written down, and looked at afterwards: no two ever held one lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use lock_runtime::LockManager;
use tokio::task::JoinSet;

use crate::crew::LONG;
use crate::support::dice::Dice;
use crate::support::history::{Belief, Fence, believe, disorder, history, overlaps};
use crate::support::server::Server;
use crate::support::time::millis;
use crate::support::worker::{Worker, arguments, block_on, next_order, tell};

const PROCESSES: usize = 4;
const TASKS: usize = 6;
const KEYS: u64 = 3;
const TTL: Duration = Duration::from_millis(800);
const FOR: Duration = Duration::from_secs(20);

async fn compete(locks: &LockManager, dice: &mut Dice) {
    let key = dice.roll(KEYS);
    let lock = locks.lock(format!("door:{key}")).ttl(TTL);
    let patience = millis(dice.roll(400));
    let acquired = match dice.roll(3) {
        0 => lock.wait(patience).acquire().await.ok(),
        1 => match tokio::time::timeout(patience, lock.wait(LONG).acquire()).await {
            Ok(acquired) => acquired.ok(),
            Err(_) => None,
        },
        _ => lock.wait(millis(5000)).acquire().await.ok(),
    };
    if let Some(guard) = acquired {
        let fenced = dice.one_in(2);
        believe(key, &guard, dice, fenced).await;
        match dice.one_in(2) {
            true => drop(guard),
            false => drop(guard.release().await),
        }
    }
}

/// In each process: until it's ordered to end.
fn work(url: &str, seed: &str) {
    let over = Arc::new(AtomicBool::new(false));
    let mut dice = Dice::with(seed.parse().unwrap());
    block_on(async {
        let locks = LockManager::connect(url).await.unwrap();
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

/// What went wrong on purpose.
#[derive(Debug, Default)]
struct Harm {
    stopped: usize,
    cut: usize,
    deafened: usize,
}

fn do_harm(server: &Server, workers: &[Worker], dice: &mut Dice) -> Harm {
    let mut harm = Harm::default();
    let start = Instant::now();
    while start.elapsed() < FOR {
        match dice.roll(4) {
            0 => {
                server.query::<usize>("CLIENT KILL TYPE normal SKIPME yes");
                harm.cut += 1;
            }
            1 => {
                server.query::<usize>("CLIENT KILL TYPE pubsub");
                harm.deafened += 1;
            }
            _ => {
                let worker = &workers[dice.roll(PROCESSES as u64) as usize];
                worker.pause();
                // Now and then past the ttl.
                let most = if dice.one_in(4) { 1500 } else { 200 };
                std::thread::sleep(millis(dice.roll(most)));
                worker.resume();
                harm.stopped += 1;
            }
        }
        std::thread::sleep(millis(dice.roll(300)));
    }
    harm
}

fn all_told(workers: &mut [Worker]) -> Vec<Belief> {
    let mut told = Vec::new();
    for (number, worker) in workers.iter_mut().enumerate() {
        worker.order("end");
        loop {
            let event = worker.event(LONG).expect("the worker comes to its end");
            let Some(belief) = Belief::read(&event, number) else {
                assert_eq!(event, "over");
                break;
            };
            told.push(belief);
        }
        worker.succeeds(LONG);
    }
    told
}

#[test]
fn no_two_hold_one_lock() {
    if let Some(arguments) = arguments() {
        return work(&arguments[0], &arguments[1]);
    }
    let server = Server::start();
    let mut dice = Dice::new();
    let mut workers = Vec::new();
    for _ in 0..PROCESSES {
        let seed = dice.roll(u64::MAX).to_string();
        let worker = Worker::start(no_two_hold_one_lock, &[&server.url(), &seed]);
        worker.expect("ready", LONG);
        workers.push(worker);
    }
    let harm = do_harm(&server, &workers, &mut dice);
    let history = history(all_told(&mut workers));
    let changes = history
        .windows(2)
        .filter(|pair| pair[0].worker != pair[1].worker);
    let changes = changes.count();
    println!(
        "{} holds, {changes} in another process than the one before; {harm:?}",
        history.len()
    );
    assert!(history.len() > 1000 && changes > 200, "too little happened");
    assert!(
        harm.stopped > 10 && harm.cut > 5 && harm.deafened > 5,
        "{harm:?}"
    );
    for wrong in [overlaps(&history), disorder(&history)] {
        let first = wrong.first();
        assert!(wrong.is_empty(), "{} times, as {first:?}", wrong.len());
    }
}

/// The control: what is looked for is found where it is.
#[test]
fn two_who_hold_one_lock_are_found() {
    let belief = |from, until, token| Belief {
        key: 1,
        from,
        until,
        fence: (token > 0).then_some(Fence {
            asked: from,
            had: from,
            token,
        }),
        worker: 0,
    };
    let sound = [belief(1, 5, 7), belief(5, 6, 0), belief(8, 8, 9)];
    assert!(overlaps(&sound).is_empty() && disorder(&sound).is_empty());
    let overlap = [belief(1, 9, 0), belief(2, 3, 0), belief(4, 5, 0)];
    assert_eq!(overlaps(&overlap).len(), 2);
    let regress = [belief(1, 2, 7), belief(3, 4, 7), belief(5, 6, 6)];
    assert_eq!(disorder(&regress).len(), 2);
    let told_twice = vec![belief(1, 2, 7), belief(1, 9, 7)];
    assert_eq!(history(told_twice)[0].until, 9);
}
