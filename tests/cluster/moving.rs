//! A slot that migrates back and forth while four processes use its locks, and a master that dies.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::support::cluster::Cluster;
use crate::support::dice::Dice;
use crate::support::history::{Belief, believe, disorder, history, overlaps};
use crate::support::manager::connected;
use crate::support::time::{NOISE, eventually, millis};
use crate::support::worker::{Worker, arguments, next_order, tell};

const LONG: Duration = Duration::from_secs(60);
/// The last grants of the dead master expire before its replacement.
const TTL: Duration = Duration::from_secs(1);
const PROCESSES: usize = 4;
const KEYS: u64 = 6;

/// All but one are in the slot that migrates.
fn key(number: u64) -> String {
    match number {
        0 => "elsewhere".to_owned(),
        _ => format!("{{moving}}:{number}"),
    }
}

/// In each process, until ordered to stop: acquires locks, mostly with a long `wait`.
async fn compete(url: &str) {
    let locks = connected(url).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let (locks, over, mut dice) = (locks.clone(), over.clone(), Dice::new());
        tasks.spawn(async move {
            let mut longest = Duration::ZERO;
            while !over.load(Relaxed) {
                let number = dice.roll(KEYS);
                let start = Instant::now();
                let lock = locks.lock(key(number)).ttl(TTL).wait(LONG);
                let acquired = match dice.one_in(8) {
                    // A few give up early.
                    true => lock.wait(millis(dice.roll(300))).acquire().await,
                    false => match lock.acquire().await {
                        Err(error) => {
                            tell(format!("wrong {error}"));
                            continue;
                        }
                        acquired => acquired,
                    },
                };
                longest = longest.max(start.elapsed());
                if let Ok(guard) = acquired {
                    believe(number, &guard, &mut dice, true).await;
                    match dice.one_in(2) {
                        true => drop(guard),
                        false => drop(guard.release().await),
                    }
                }
            }
            longest
        });
    }
    tell("ready");
    tokio::task::spawn_blocking(next_order).await.unwrap();
    over.store(true, Relaxed);
    let longest = tasks.join_all().await.into_iter().max().unwrap();
    locks.shutdown().await;
    tell(format!("longest {}", longest.as_millis()));
    tell("over");
}

fn errors(cluster: &Cluster, kind: &str) -> u64 {
    let count = |node: usize| {
        let count = cluster
            .node(node)
            .tells("INFO errorstats", &format!("errorstat_{kind}"))?;
        count.strip_prefix("count=")?.parse::<u64>().ok()
    };
    (0..3).filter_map(count).sum()
}

#[test]
fn migration_and_failover_lose_no_waiter_and_grant_no_lock_twice() {
    if let Some(arguments) = arguments() {
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(2).enable_all().build();
        return runtime.unwrap().block_on(compete(&arguments[0]));
    }
    let mut cluster = Cluster::start();
    let start = || {
        Worker::start(
            migration_and_failover_lose_no_waiter_and_grant_no_lock_twice,
            &[&cluster.url()],
        )
    };
    let mut workers: Vec<Worker> = (0..PROCESSES).map(|_| start()).collect();
    workers
        .iter()
        .for_each(|worker| drop(worker.expect("ready", LONG)));

    let slot = cluster.slot("{moving}");
    let first = cluster.master_of(slot).unwrap();
    let (mut here, mut there) = (first, (first + 1) % 3);
    let mut dice = Dice::new();
    for _ in 0..20 {
        cluster.begin_to_move(slot, here, there);
        std::thread::sleep(millis(dice.roll(60)));
        cluster.end_to_move(slot, here, there);
        (here, there) = (there, here);
        std::thread::sleep(millis(dice.roll(60)));
    }
    for kind in ["MOVED", "ASK", "TRYAGAIN"] {
        let count = errors(&cluster, kind);
        println!("{count} times {kind}");
        assert!(count > 0, "no request was answered {kind}");
    }

    eventually(LONG, "all nodes know the slot's owner", || {
        cluster.master_of(slot) == Some(here)
    });
    cluster.node_mut(here).kill();
    std::thread::sleep(TTL + millis(200));
    cluster.replace(here);
    std::thread::sleep(millis(1500));

    workers.iter_mut().for_each(|worker| worker.order("stop"));
    let mut told = Vec::new();
    for (number, worker) in workers.iter_mut().enumerate() {
        loop {
            let event = worker.event(LONG).expect("the worker reports an event");
            if event == "over" {
                break;
            }
            if let Some(longest) = event.strip_prefix("longest ") {
                println!("the longest wait was {longest} ms");
                let longest = millis(longest.parse().unwrap());
                // A failover, and a lease that could not be released.
                assert!(longest < millis(6000) + TTL + NOISE, "{longest:?}");
            }
            assert!(!event.starts_with("wrong"), "{event}");
            told.extend(Belief::read(&event, number));
        }
        worker.succeeds(LONG);
    }
    let history = history(told);
    println!("{} locks", history.len());
    assert!(history.len() > 200);
    assert_eq!(overlaps(&history), [""; 0]);
    assert_eq!(disorder(&history), [""; 0]);
    // A fencing token issued to the wrong holder appears twice. Locks of one slot share a counter.
    let mut tokens = BTreeMap::new();
    for belief in &history {
        if let Some(fence) = &belief.fence
            && let Some(other) = tokens.insert((belief.key == 0, fence.token), belief)
        {
            panic!("{other:?} and {belief:?}");
        }
    }
    (0..KEYS).for_each(|n| {
        eventually(TTL + NOISE, "all locks are free", || {
            !cluster.exists(&format!("lock:{}", key(n)))
        });
    });
}
