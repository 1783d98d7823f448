//! Four processes compete for three locks, while they are stopped and cut off at random. What they
//! believed is written down, and looked at afterwards: no two ever held one lock.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lock_runtime::{LockGuard, LockManager};
use tokio::task::JoinSet;

use crate::crew::{LONG, block_on};
use crate::support::dice::Dice;
use crate::support::server::Server;
use crate::support::time::millis;
use crate::support::worker::{Worker, arguments, next_order, tell};

const PROCESSES: usize = 4;
const TASKS: usize = 6;
const KEYS: u64 = 3;
const TTL: Duration = Duration::from_millis(800);
const FOR: Duration = Duration::from_secs(20);

/// A lock was provably held from then until then, by the clock that all processes share.
#[derive(Debug)]
struct Belief {
    key: u64,
    from: u128,
    until: u128,
    /// Zero if none was to be had.
    fence: u64,
    worker: usize,
}

fn now() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos()
}

/// Holds it for a while. Every look at the guard is taken between two looks at the clock: the
/// process may be stopped at any point.
async fn believe(key: u64, guard: &LockGuard, dice: &mut Dice) {
    if !guard.is_valid() {
        return;
    }
    let from = now();
    let fence = match dice.one_in(2) {
        true => guard.fencing_token().await.unwrap_or(0),
        false => 0,
    };
    let mut until = from;
    for _ in 0..dice.roll(5) {
        let look = now();
        if !guard.is_valid() {
            break;
        }
        until = look;
        tokio::time::sleep(Duration::from_micros(dice.roll(8000))).await;
    }
    let look = now();
    if guard.is_valid() {
        until = look;
    }
    tell(format!("held {key} {from} {until} {fence}"));
}

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
        believe(key, &guard, dice).await;
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

fn history(workers: &mut [Worker]) -> Vec<Belief> {
    let mut history = Vec::new();
    for (number, worker) in workers.iter_mut().enumerate() {
        worker.order("end");
        loop {
            let event = worker.event(LONG).expect("the worker comes to its end");
            let Some(belief) = event.strip_prefix("held ") else {
                assert_eq!(event, "over");
                break;
            };
            let mut words = belief.split(' ');
            history.push(Belief {
                key: next(&mut words),
                from: next(&mut words),
                until: next(&mut words),
                fence: next(&mut words),
                worker: number,
            });
        }
        worker.succeeds(LONG);
    }
    history.sort_by_key(|belief| (belief.key, belief.from));
    history
}

fn next<'a, T: FromStr<Err: std::fmt::Debug>>(words: &mut impl Iterator<Item = &'a str>) -> T {
    words.next().unwrap().parse().unwrap()
}

/// Two at a time that held one lock at the same time, and tokens that didn't grow.
fn contradictions(history: &[Belief]) -> Vec<String> {
    let mut found = Vec::new();
    for key in 0..KEYS {
        let holds = || history.iter().filter(|belief| belief.key == key);
        let mut last: Option<&Belief> = None;
        for belief in holds() {
            if let Some(last) = last.filter(|last| belief.from < last.until) {
                found.push(format!("{last:?} and {belief:?}"));
            }
            // The one that lasts longer can still be overlapped by the next.
            if last.is_none_or(|last| last.until < belief.until) {
                last = Some(belief);
            }
        }
        let fenced: Vec<_> = holds().filter(|belief| belief.fence > 0).collect();
        for pair in fenced.windows(2) {
            if pair[0].fence >= pair[1].fence {
                found.push(format!("{:?} before {:?}", pair[0], pair[1]));
            }
        }
    }
    found
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
    let history = history(&mut workers);
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
    let wrong = contradictions(&history);
    assert!(
        wrong.is_empty(),
        "{} contradictions, as {:?}",
        wrong.len(),
        wrong.first()
    );
}

/// The control: what is looked for is found where it is.
#[test]
fn two_who_hold_one_lock_are_found() {
    let belief = |from, until, fence| Belief {
        key: 1,
        from,
        until,
        fence,
        worker: 0,
    };
    let sound = [belief(1, 5, 7), belief(5, 6, 0), belief(8, 8, 9)];
    assert!(contradictions(&sound).is_empty());
    let overlap = [belief(1, 9, 0), belief(2, 3, 0), belief(4, 5, 0)];
    assert_eq!(contradictions(&overlap).len(), 2);
    let regress = [belief(1, 2, 7), belief(3, 4, 7)];
    assert_eq!(contradictions(&regress).len(), 1);
}
