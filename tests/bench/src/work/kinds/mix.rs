//! Readers and writers of several processes want one lock all the time: the share of each client, and the
//! waits.

use crate::Bench;
use crate::child::{Child, serve};
use crate::contenders::ours::{Ours, Read};
use crate::load::{Outcome, Plan, drive};
use crate::numbers::{Summary, micros, millis};
use crate::report::{Report, Table};
use crate::runtime::Flavor;
use crate::work::fair::Stalls;
use lock_runtime::LockManager;
use std::sync::Arc;
use std::time::Duration;

pub const KIND: &str = "mix";

const PROCESSES: usize = 5;
const BODY: Duration = Duration::from_millis(2);

/// The clients of a process share one manager, as in a service, or have one each, like processes of one
/// client.
const ONE: &str = "one manager a process";
const APART: &str = "a manager each";

pub fn mix(bench: &mut Bench) {
    let time = Duration::from_secs(if bench.quick { 2 } else { 30 });
    let columns = [
        "locks/s",
        "least / mean",
        "most / mean",
        "mean wait µs",
        "p99 ms",
        "longest ms",
        "longest / mean",
        "machine stood ms",
    ];
    let title = format!("{PROCESSES} processes for {time:?}, body {BODY:?}");
    let mut table = Table::new(&title, &columns);
    let mut results = Vec::new();
    for (readers, writers, managers) in [(12, 3, ONE), (40, 1, ONE), (12, 3, APART), (40, 1, APART)]
    {
        let url = bench.server.url();
        let start = |process| {
            // The writers are in the processes with fewer readers.
            let readers = share(readers, process).to_string();
            let writers = share(writers, PROCESSES - 1 - process).to_string();
            Child::start(KIND, &[&url, &readers, &writers, managers])
        };
        let mut processes: Vec<Child> = (0..PROCESSES).map(start).collect();
        let plan = Plan {
            body: BODY,
            ..Plan::contended(1, time)
        };
        Child::ask_all(&mut processes, &plan.warm_up().write());
        let stalls = Stalls::watch();
        let answers = Child::ask_all(&mut processes, &plan.fresh().write());
        let stall = stalls.longest();
        let kinds = answers.iter().map(|answer| answer.split_once('|').unwrap());
        let (of_readers, of_writers): (Vec<&str>, Vec<&str>) = kinds.unzip();
        for (name, count, outcomes) in [
            ("reader", readers, read(&of_readers)),
            ("writer", writers, read(&of_writers)),
        ] {
            assert_eq!(outcomes.len(), count, "every client reports");
            let shares = Shares::of(&outcomes);
            let name = format!("{name} of {readers} + {writers}, {managers}");
            table.row(&name, shares.cells(time, stall));
            results.push((name, shares));
        }
        drop(processes);
        bench.server.clear();
    }
    println!();
    table.print();
    for (name, shares) in results {
        shares.judge(&mut bench.report, &name);
    }
}

/// Returns how many of the clients a process has.
fn share(clients: usize, process: usize) -> usize {
    clients / PROCESSES + usize::from(process < clients % PROCESSES)
}

/// Reads the outcomes of one kind of client.
fn read(answers: &[&str]) -> Vec<Outcome> {
    let words = answers.iter().flat_map(|answer| answer.split(';'));
    let outcomes = words.filter(|words| !words.is_empty());
    outcomes
        .map(|words| Outcome::read(words).expect("an outcome"))
        .collect()
}

/// How equal the clients of one kind were.
struct Shares {
    wait: Summary,
    /// The smallest and the greatest number of locks, beside the mean.
    least: f64,
    most: f64,
}

impl Shares {
    fn of(outcomes: &[Outcome]) -> Shares {
        let counts = outcomes.iter().map(|outcome| outcome.locks() as f64);
        let mean = counts.clone().sum::<f64>() / outcomes.len() as f64;
        Shares {
            wait: outcomes.iter().map(|outcome| outcome.wait).sum(),
            least: counts.clone().fold(f64::MAX, f64::min) / mean,
            most: counts.fold(0.0, f64::max) / mean,
        }
    }

    fn longest(&self) -> f64 {
        millis(self.wait.most) / millis(self.wait.mean)
    }

    fn cells(&self, time: Duration, stall: Duration) -> Vec<String> {
        vec![
            format!("{:.0}", self.wait.count as f64 / time.as_secs_f64()),
            format!("{:.2}", self.least),
            format!("{:.2}", self.most),
            format!("{:.0}", micros(self.wait.mean)),
            format!("{:.1}", millis(self.wait.p99)),
            format!("{:.1}", millis(self.wait.most)),
            format!("{:.1}", self.longest()),
            format!("{:.1}", millis(stall)),
        ]
    }

    fn judge(&self, report: &mut Report, name: &str) {
        let off = (self.most - 1.0).max(1.0 - self.least) * 100.0;
        report.target(
            &format!("each {name}: locks"),
            format!("±{off:.0} % of the mean"),
            "±15 %",
            off <= 15.0,
        );
        let longest = self.longest();
        report.target(
            &format!("each {name}: longest wait"),
            format!("{longest:.1} × the mean"),
            "≤ 3 × the mean",
            longest <= 3.0,
        );
    }
}

/// Runs clients of one process, and returns the outcome of each.
pub fn child(arguments: &[String]) {
    let [url, readers, writers, managers] = arguments else {
        panic!("expected a URL, a number of readers, one of writers, and which managers they have");
    };
    let runtime = Flavor::Threads.build();
    let connect = || {
        runtime
            .block_on(LockManager::connect(url.as_str()))
            .unwrap()
    };
    let common = connect();
    let ours = || match managers == APART {
        true => Ours(connect()),
        false => Ours(common.clone()),
    };
    let [readers, writers] = [readers, writers].map(|count| 0..count.parse::<usize>().unwrap());
    let readers: Vec<_> = readers.map(|_| Arc::new(Read(ours()))).collect();
    let writers: Vec<_> = writers.map(|_| Arc::new(ours())).collect();
    serve(|plan| {
        let plan = Plan::read(plan).expect("a plan");
        let read = |reader: Arc<Read>| async move { drive(&reader, plan).await };
        let write = |writer: Arc<Ours>| async move { drive(&writer, plan).await };
        let readers: Vec<_> = readers.iter().cloned().map(read).collect();
        let writers: Vec<_> = writers.iter().cloned().map(write).collect();
        let readers: Vec<_> = readers.into_iter().map(|it| runtime.spawn(it)).collect();
        let writers: Vec<_> = writers.into_iter().map(|it| runtime.spawn(it)).collect();
        let [readers, writers] = [readers, writers].map(|clients| {
            let outcomes = clients.into_iter().map(|client| runtime.block_on(client));
            let words: Vec<String> = outcomes.map(|outcome| outcome.unwrap().write()).collect();
            words.join(";")
        });
        format!("{readers}|{writers}")
    });
}
