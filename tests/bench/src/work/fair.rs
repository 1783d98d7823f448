//! Processes want one lock all the time: the share of each, and the waits.

use crate::Bench;
use crate::contenders::{ContenderKind, Retry};
use crate::load::Plan;
use crate::numbers::{micros, millis};
use crate::process_group::{ProcessGroup, Size, together};
use crate::report::Table;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

const PROCESSES: usize = 8;

pub fn fair(bench: &mut Bench) {
    let time = Duration::from_secs(if bench.quick { 2 } else { 30 });
    let url = bench.server.url();
    let columns = [
        "locks/s",
        "most / least",
        "mean wait µs",
        "longest ms",
        "longest / mean",
        "p99 ms",
        "machine stood ms",
    ];
    let title = format!("{PROCESSES} processes for {time:?}");
    let mut table = Table::new(&title, &columns);
    let mut fairness = |contender: ContenderKind, tasks: usize, body: Duration, time: Duration| {
        let mut group = ProcessGroup::start(contender, Size::processes(PROCESSES), &url);
        let plan = Plan {
            body,
            ..Plan::contended(tasks, time)
        };
        group.follow(plan.warm_up());
        let stalls = Stalls::watch();
        let outcomes = group.follow(plan.fresh());
        let stall = stalls.longest();
        let counts = outcomes.iter().map(|outcome| outcome.locks());
        let most = counts.clone().max().unwrap_or(0) as f64;
        let least = counts.min().unwrap_or(0) as f64;
        let all = together(plan, &outcomes);
        let longest = millis(all.wait.most) / millis(all.wait.mean);
        let cells = vec![
            format!("{:.0}", all.rate()),
            format!("{:.2}", most / least),
            format!("{:.0}", micros(all.wait.mean)),
            format!("{:.1}", millis(all.wait.most)),
            format!("{longest:.1}"),
            format!("{:.1}", millis(all.wait.p99)),
            format!("{:.1}", millis(stall)),
        ];
        table.row(
            &format!("{contender}, {tasks} task(s), body {body:?}"),
            cells,
        );
        (most / least, longest)
    };
    let millisecond = Duration::from_millis(1);
    let mut ours = Vec::new();
    for (tasks, body) in [(1, millisecond), (1, Duration::ZERO), (4, millisecond)] {
        ours.push((
            tasks,
            body,
            fairness(ContenderKind::Ours, tasks, body, time),
        ));
    }
    for peer in [
        ContenderKind::Rslock,
        ContenderKind::Rlock,
        ContenderKind::AsyncRedisLock,
        ContenderKind::Distkit,
    ] {
        fairness(peer(Retry::Tuned), 1, millisecond, time / 6);
    }
    println!();
    table.print();
    for (tasks, body, (ratio, longest)) in ours {
        let work = format!("fairness, {PROCESSES} processes × {tasks}, body {body:?}");
        bench.report.target(
            &format!("{work}: most / least locks"),
            format!("{ratio:.2}"),
            "≤ 1.5",
            ratio <= 1.5,
        );
        bench.report.target(
            &format!("{work}: longest wait"),
            format!("{longest:.1} × the mean"),
            "≤ 3 × the mean",
            longest <= 3.0,
        );
    }
    bench.server.clear();
}

/// A thread that wakes up every millisecond, and measures how late that is at worst.
pub struct Stalls {
    over: Arc<AtomicBool>,
    watcher: JoinHandle<Duration>,
}

impl Stalls {
    pub fn watch() -> Stalls {
        let over = Arc::new(AtomicBool::new(false));
        let end = over.clone();
        let watcher = spawn(move || {
            let mut longest = Duration::ZERO;
            while !end.load(Ordering::Relaxed) {
                let start = Instant::now();
                sleep(Duration::from_millis(1));
                longest = longest.max(start.elapsed());
            }
            longest
        });
        Stalls { over, watcher }
    }

    pub fn longest(self) -> Duration {
        self.over.store(true, Ordering::Relaxed);
        self.watcher.join().unwrap()
    }
}
