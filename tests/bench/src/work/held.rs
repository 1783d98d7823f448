//! Very many locks held at the same time, by one process.

use crate::Bench;
use crate::child::{Child, serve};
use crate::contenders::raw::Raw;
use crate::contenders::{Contender, Retry, TTL};
use crate::numbers::{Summary, micros};
use crate::process;
use crate::report::Table;
use crate::runtime::Flavor;
use lock_runtime::{Lock, LockGuard, LockManager};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

pub const KIND: &str = "hold";

pub fn held(bench: &mut Bench) {
    let url = bench.server.url();
    let most: u64 = if bench.quick { 10_000 } else { 100_000 };
    let seconds = if bench.quick { 3 } else { 24 };
    let mut child = Child::start(KIND, &[&url]);

    let columns = [
        "p50 µs",
        "p99 µs",
        "raw p50 µs",
        "p50 / raw",
        "/ with 1 held",
    ];
    let mut table = Table::new("acquire + release with so many held", &columns);
    let mut ratios = Vec::new();
    let mut count = 1;
    while count <= most {
        child.ask(&format!("hold {count}"));
        let [ours, raw] = measure(&mut child, if bench.quick { 300 } else { 2000 });
        let ratio = micros(ours.p50) / micros(raw.p50);
        ratios.push(ratio);
        let cells = vec![
            format!("{:.1}", micros(ours.p50)),
            format!("{:.0}", micros(ours.p99)),
            format!("{:.1}", micros(raw.p50)),
            format!("{ratio:.3}"),
            format!("{:.3}", ratio / ratios[0]),
        ];
        table.row(&count.to_string(), cells);
        count *= 10;
    }
    println!();
    table.print();
    let off = ratios.iter().map(|ratio| (ratio / ratios[0] - 1.0) * 100.0);
    let off = off.fold(
        0.0,
        |worst: f64, off| if off.abs() > worst.abs() { off } else { worst },
    );
    bench.report.target(
        &format!("cost per lock from 1 to {most} held, beside raw"),
        format!("{off:+.0} %"),
        "flat ±20 %",
        off.abs() <= 20.0,
    );

    let share = renewal(&child, seconds);
    bench.report.target(
        &format!("{most} held locks, ttl {TTL:?}: renewal in our process, over {seconds} s"),
        format!("{share:.2} % of a core"),
        "< 3 % of a core",
        share < 3.0,
    );
    let beside = pace(&mut child, seconds);
    child.ask("hold 0");
    let alone = pace(&mut child, seconds);
    println!(
        "a lock every 2 ms: p50 {:.0} µs, p99 {:.0} µs beside {most} held; p50 {:.0} µs, p99 {:.0} µs without",
        micros(beside.p50),
        micros(beside.p99),
        micros(alone.p50),
        micros(alone.p99)
    );
    let ratio = micros(beside.p99) / micros(alone.p99);
    bench.report.target(
        &format!("{most} held locks: p99 of acquire beside"),
        format!("{ratio:.2} × undisturbed"),
        "< 3 × undisturbed",
        ratio < 3.0,
    );
    drop(child);
    bench.server.clear();
}

pub fn memory(bench: &mut Bench) {
    let url = bench.server.url();
    let count: u64 = if bench.quick { 10_000 } else { 100_000 };
    let (child, each) = memory_of_holding(&url, count);
    bench.report.target(
        "memory per held lock, its guard included",
        format!("{each:.0} bytes"),
        "< 1024 bytes",
        each < 1024.0,
    );
    drop(child);
    bench.server.clear();
    // A claim at the front of its queue asks twice a second: of too many, most would have a request under
    // way.
    for (name, waiters, keys) in [("one key", 20_000, 1), ("a key each", 2_000, 2_100)] {
        let mut child = Child::start(KIND, &[&url]);
        child.ask(&format!("hold {keys}"));
        let wave = waiters / 20;
        let before = settled_heap(&mut child);
        child.ask(&format!("idle {wave}"));
        let task = (settled_heap(&mut child) - before) / f64::from(wave);
        child.ask(&format!("wait {wave} {keys}"));
        let before = settled_heap(&mut child);
        for _ in 0..20 {
            child.ask(&format!("wait {wave} {keys}"));
            sleep(Duration::from_millis(250));
        }
        let each = (settled_heap(&mut child) - before) / f64::from(waiters) - task;
        bench.report.target(
            &format!("memory per waiter, {name}, beyond its task of {task:.0} bytes"),
            format!("{each:.0} bytes"),
            "< 2048 bytes",
            each < 2048.0,
        );
        drop(child);
        bench.server.clear();
    }
}

/// Returns the bytes of a process's heap that are in use between its requests: the least of several readings.
/// What requests need for a moment is not the memory of waiting.
fn settled_heap(child: &mut Child) -> f64 {
    sleep(Duration::from_secs(2));
    let readings = (0..30).map(|_| {
        sleep(Duration::from_millis(100));
        child.ask("heap").parse().unwrap()
    });
    readings.fold(f64::MAX, f64::min)
}

/// Holds a million locks.
pub fn million(bench: &mut Bench) {
    let url = bench.server.url();
    let count: u64 = if bench.quick { 10_000 } else { 1_000_000 };
    let (child, each) = memory_of_holding(&url, count);
    bench.report.target(
        &format!("{count} held locks: memory of each, its guard included"),
        format!("{each:.0} bytes"),
        "< 700 bytes",
        each < 700.0,
    );
    let seconds = if bench.quick { 3 } else { 30 };
    let share = renewal(&child, seconds);
    bench.report.target(
        &format!("{count} held locks, ttl {TTL:?}: renewal in our process, over {seconds} s"),
        format!("{share:.2} % of a core"),
        "< 10 % of a core",
        share < 10.0,
    );
    drop(child);
    bench.server.clear();
}

/// Starts a process that holds so many locks. Returns the bytes that each of them needs.
fn memory_of_holding(url: &str, count: u64) -> (Child, f64) {
    let mut child = Child::start(KIND, &[url]);
    child.ask("hold 100");
    let memory = |child: &mut Child| {
        ["resident", "heap"].map(|what| child.ask(what).parse::<f64>().unwrap())
    };
    let before = memory(&mut child);
    child.ask(&format!("hold {}", count + 100));
    let after = memory(&mut child);
    let each = |nth: usize| (after[nth] - before[nth]) / count as f64;
    println!(
        "{count} held locks: {:.0} bytes resident, {:.0} on the heap",
        each(0),
        each(1)
    );
    (child, each(0))
}

/// Returns how much of a core a process uses, in percent, while it only renews locks. Locks that were
/// acquired together are renewed together, so the time must cover a whole round.
pub fn renewal(child: &Child, seconds: u64) -> f64 {
    let (start, before) = (Instant::now(), process::cpu(child.id()));
    sleep(Duration::from_secs(seconds));
    let cpu = (process::cpu(child.id()) - before).as_secs_f64();
    cpu / start.elapsed().as_secs_f64() * 100.0
}

fn measure(child: &mut Child, locks: u64) -> [Summary; 2] {
    let words = child.ask(&format!("measure {locks}"));
    let mut numbers = words.split(' ').map_while(|word| word.parse().ok());
    [(); 2].map(|()| Summary::read(&mut numbers).expect("a summary"))
}

fn pace(child: &mut Child, seconds: u64) -> Summary {
    let words = child.ask(&format!("pace {seconds}"));
    let mut numbers = words.split(' ').map_while(|word| word.parse().ok());
    Summary::read(&mut numbers).expect("a summary")
}

/// Holds locks, waits for locks, and meanwhile acquires some others.
pub fn child(arguments: &[String]) {
    let [url] = arguments else {
        panic!("expected a URL");
    };
    let runtime = Flavor::Threads.build();
    let connect = async {
        let raw = Arc::new(Raw::connect(url, Retry::Default).await);
        let ours = LockManager::connect(url.as_str()).await.unwrap();
        let waiting = LockManager::connect(url.as_str()).await.unwrap();
        (ours, waiting, raw)
    };
    let (ours, waiting, raw) = runtime.block_on(connect);
    let mut guards = Vec::new();
    let mut waiters: Vec<JoinHandle<()>> = Vec::new();
    let mut idle: Vec<JoinHandle<()>> = Vec::new();
    let exclusive: Kind = |locks, number| locks.lock(key(number));
    let read: Kind = |locks, number| locks.lock(key(number)).read();
    let pairs: Kind = |locks, number| locks.lock(key(number / 2)).permits(2);
    serve(|order| {
        let (what, rest) = order.split_once(' ').unwrap_or((order, ""));
        let numbers: Vec<u64> = rest
            .split(' ')
            .filter_map(|word| word.parse().ok())
            .collect();
        match (what, &numbers[..]) {
            ("hold" | "hold-read" | "hold-pairs", [count]) => {
                let kind = match what {
                    "hold" => exclusive,
                    "hold-read" => read,
                    _ => pairs,
                };
                let (locks, held) = (ours.clone(), std::mem::take(&mut guards));
                let hold = hold(locks, kind, held, *count as usize);
                guards = runtime.block_on(runtime.spawn(hold)).unwrap();
            }
            ("wait", [count, keys]) => {
                let locks = &waiting;
                let first = waiters.len() as u64;
                waiters.extend((first..first + count).map(|number| {
                    let lock = locks.lock(key(number % keys)).ttl(TTL).wait(Duration::MAX);
                    runtime.spawn(wait_for(Some(lock)))
                }));
            }
            ("idle", [count]) => idle.extend((0..*count).map(|_| runtime.spawn(wait_for(None)))),
            ("heap", []) => return process::heap().to_string(),
            ("resident", []) => return process::resident().to_string(),
            ("measure", [locks]) => {
                let both = both(ours.clone(), raw.clone(), *locks);
                let [ours, raw] = runtime.block_on(runtime.spawn(both)).unwrap();
                return format!("{} {}", ours.write(), raw.write());
            }
            ("pace", [seconds]) => {
                let paced = paced(ours.clone(), Duration::from_secs(*seconds));
                return runtime.block_on(runtime.spawn(paced)).unwrap().write();
            }
            _ => panic!("unknown order `{order}`"),
        }
        "done".to_owned()
    });
}

/// Waits for a lock; or for nothing, in a task of the same size.
async fn wait_for(lock: Option<Lock>) {
    match lock {
        Some(lock) => drop(lock.acquire().await),
        None => std::future::pending().await,
    }
}

fn key(number: u64) -> String {
    format!("held-{number}")
}

/// Returns the lock with that number.
type Kind = fn(&LockManager, u64) -> Lock;

/// Acquires or releases locks until there are `count`.
async fn hold(
    locks: LockManager,
    kind: Kind,
    mut guards: Vec<LockGuard>,
    count: usize,
) -> Vec<LockGuard> {
    while guards.len() > count {
        let release = guards.split_off(guards.len().saturating_sub(256).max(count));
        let releases: Vec<_> = release
            .into_iter()
            .map(|guard| tokio::spawn(guard.release()))
            .collect();
        for release in releases {
            release.await.unwrap().unwrap();
        }
    }
    while guards.len() < count {
        let next = guards.len()..count.min(guards.len() + 256);
        let acquire = |number| kind(&locks, number as u64).ttl(TTL).acquire();
        let acquires: Vec<_> = next.map(|number| tokio::spawn(acquire(number))).collect();
        for acquire in acquires {
            guards.push(acquire.await.unwrap().unwrap());
        }
    }
    guards
}

async fn take(locks: &LockManager) -> Duration {
    let start = Instant::now();
    let guard = locks.lock("measured").ttl(TTL).acquire().await.unwrap();
    guard.release().await.unwrap();
    start.elapsed()
}

/// Measures this library and raw commands, in turns.
async fn both(locks: LockManager, raw: Arc<Raw>, count: u64) -> [Summary; 2] {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for turn in 0..count {
        for _ in 0..2 {
            let time = take(&locks).await;
            let start = Instant::now();
            raw.run("raw-measured", async {}).await;
            let raw = start.elapsed();
            if turn > 20 {
                ours.push(time);
                theirs.push(raw);
            }
        }
    }
    [Summary::of(ours), Summary::of(theirs)]
}

async fn paced(locks: LockManager, time: Duration) -> Summary {
    let start = Instant::now();
    let mut times = Vec::new();
    while start.elapsed() < time {
        times.push(take(&locks).await);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Summary::of(times)
}
