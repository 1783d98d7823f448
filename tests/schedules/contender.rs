//! One of the processes that compete.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use lock_runtime::{Config, LockManager};
use tokio::task::JoinSet;

use crate::support::dice::Dice;
use crate::support::history::believe;
use crate::support::time::{NOISE, millis};
use crate::support::worker::{next_order, tell};

pub const KEYS: u64 = 3;
const TASKS: usize = 3;

pub fn key(number: u64) -> String {
    format!("door:{number}")
}

pub async fn connect(config: &Config) -> LockManager {
    loop {
        // What is asked may be away.
        match LockManager::connect(config.clone()).await {
            Ok(locks) => return locks,
            Err(error) if error.is_unavailable() => tokio::time::sleep(millis(20)).await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Where that is; several are a quorum.
pub fn config(urls: &str) -> Config {
    match urls.split(' ').collect::<Vec<_>>()[..] {
        [url] => Config::new(url),
        ref members => Config::quorum(members.iter().copied()),
    }
}

/// Until it's ordered to end; then it has each lock once more.
pub fn compete(arguments: &[String]) {
    let [urls, ttl, seed] = arguments else {
        panic!("{arguments:?}");
    };
    let ttl = millis(ttl.parse().unwrap());
    let mut dice = Dice::with(seed.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    std::thread::spawn(notice_stops);
    runtime.unwrap().block_on(async {
        let locks = connect(&config(urls)).await;
        let over = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            let (locks, over, mut dice) = (locks.clone(), over.clone(), dice.split());
            tasks.spawn(async move {
                while !over.load(Relaxed) {
                    take_once(&locks, ttl, &mut dice).await;
                }
            });
        }
        tell("ready");
        tokio::task::spawn_blocking(next_order).await.unwrap();
        over.store(true, Relaxed);
        tasks.join_all().await;
        for number in 0..KEYS {
            let start = Instant::now();
            let lock = locks.lock(key(number)).ttl(ttl).wait(millis(60_000));
            match lock.acquire().await {
                Ok(guard) => drop(guard.release().await),
                Err(error) => tell(format!("wrong {error}")),
            }
            tell(format!("waited {}", start.elapsed().as_millis()));
        }
        locks.shutdown().await;
        tell("over");
    });
}

async fn take_once(locks: &LockManager, ttl: Duration, dice: &mut Dice) {
    let number = dice.roll(KEYS);
    let lock = locks.lock(key(number)).ttl(ttl);
    let wait = millis(dice.roll(1000));
    let (start, stopped) = (Instant::now(), STOPPED.load(Relaxed));
    let acquired = match dice.roll(4) {
        0 => lock.try_acquire().await.ok().flatten(),
        1 => {
            let acquire = lock.wait(millis(60_000)).acquire();
            let acquired = tokio::time::timeout(wait, acquire).await;
            acquired.ok().and_then(Result::ok)
        }
        _ => lock.wait(wait).acquire().await.ok(),
    };
    let took = start.elapsed();
    if let Some(guard) = acquired {
        believe(number, &guard, dice, true).await;
        match dice.one_in(2) {
            true => drop(guard),
            false => drop(guard.release().await),
        }
    }
    // By now it is known how long this process was stopped meanwhile.
    tokio::time::sleep(millis(dice.roll(20))).await;
    let stopped = millis(STOPPED.load(Relaxed) - stopped);
    // A single try is bounded by the command timeout.
    if took > wait.max(millis(500)) + stopped + NOISE {
        tell(format!(
            "wrong {took:?} to wait for {wait:?}, {stopped:?} of it stopped"
        ));
    }
}

/// For how many milliseconds this process has been stopped.
static STOPPED: AtomicU64 = AtomicU64::new(0);

/// Notices when the time goes on without this process.
fn notice_stops() {
    const BEAT: Duration = millis(5);
    loop {
        let start = Instant::now();
        std::thread::sleep(BEAT);
        let late = start.elapsed() - BEAT;
        STOPPED.fetch_add(late.as_millis() as u64, Relaxed);
    }
}
