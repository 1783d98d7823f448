//! Locks in engines other than Redis, beside what their servers need for the least that a lock could do.

#[cfg(feature = "etcd")]
mod etcd;
mod mysql;
mod postgres;
mod quorum;
mod zookeeper;

use crate::Bench;
use crate::contenders::{AnyContender, BoxFuture, Connect, ContenderKind};
use crate::load::{Outcome, Plan};
use crate::numbers::{Summary, median, micros};
use crate::process_group::together;
use crate::report::Table;
use crate::runtime::Flavor;
use crate::work::handoff::{self, Pair};
use crate::work::lazy;
use lock_test_support::servers::Servers;
use std::sync::Arc;
use std::time::Duration;

/// The time after which the other process waits before its turn: several times that of a write, since it
/// acquires only once its own release is confirmed, and is to wait before the lock is released.
const REST: Duration = Duration::from_millis(15);

pub const ALL: &[Engine] = &[
    quorum::ENGINE,
    postgres::ENGINE,
    mysql::ENGINE,
    #[cfg(feature = "etcd")]
    etcd::ENGINE,
    zookeeper::ENGINE,
];

/// An engine, what its locks are compared with, and how they should compare.
pub struct Engine {
    pub name: &'static str,
    /// Starts that number of members.
    start: fn(usize) -> Box<dyn Servers>,
    /// Whether clients connect to all members. Otherwise all contenders connect to the same one.
    is_quorum: bool,
    /// The least that a lock needs, this library, and others, with their names.
    contenders: &'static [(&'static str, Connect)],
    /// Those that wait for one lock in many processes.
    waiting: &'static [(&'static str, Connect)],
    /// Does what a hand-off needs at least, that number of times, and returns the times that it took.
    bare_hand_off: for<'a> fn(&'a str, u64) -> BoxFuture<'a, Vec<Duration>>,
    /// Its name.
    bare_name: &'static str,
    targets: Targets,
}

/// Killed when dropped, whatever is left on them.
struct Measured(Box<dyn Servers>);

impl Drop for Measured {
    fn drop(&mut self) {
        (0..self.0.ports().len()).for_each(|number| self.0.kill(number));
    }
}

struct Targets {
    /// The highest ratio to the least that a lock needs, with one member, and with several.
    alone: [f64; 2],
    hand_off: f64,
    /// The lowest ratios of locks per second to those of contenders.
    many: &'static [(&'static str, f64)],
    /// The same of many processes, with one lock.
    crowd: &'static [(&'static str, f64)],
}

/// How many clients want one lock, and for how long each has it.
const CROWD: usize = 20;
const BODY: Duration = Duration::from_millis(5);

/// The name of this library's locks.
const OURS: &str = "lock-runtime";

/// How long each contender runs before anything is measured: until then the server compiles what it runs
/// often, and fills its caches.
const SETTLING: Duration = Duration::from_secs(4);

/// The outcomes of one contender in all rounds.
struct Score {
    name: &'static str,
    rounds: Vec<Outcome>,
}

impl Score {
    fn ratio(&self, other: &Score, value: fn(&Outcome) -> f64) -> f64 {
        let rounds = self.rounds.iter().zip(&other.rounds);
        median(rounds.map(|(mine, theirs)| value(mine) / value(theirs)))
    }

    fn median(&self, value: fn(&Outcome) -> f64) -> f64 {
        median(self.rounds.iter().map(value))
    }
}

/// Returns why an engine cannot be measured.
pub fn unknown(name: &str) -> String {
    match name {
        "etcd" => {
            "`etcd` needs the feature `etcd` of this program, and `protoc` to compile it".to_owned()
        }
        _ => format!("unknown engine `{name}`"),
    }
}

impl Engine {
    pub fn run(&self, bench: &mut Bench, members: usize) {
        let servers = Measured((self.start)(members));
        let ports = servers.0.ports();
        let used = if self.is_quorum { ports.len() } else { 1 };
        let url = &servers.0.urls_at(&ports[..used]).join(" ");
        let title = match members {
            1 => self.name.to_owned(),
            _ => format!("{}, {members} members", self.name),
        };
        println!("{title}, turns of {:?}", bench.time);
        self.alone(bench, url, &title, members);
        self.many(bench, url, &title);
        self.hand_off(bench, url, &title);
        self.crowd(bench, url, &title);
        lazy::in_engine(bench, url, &title, REST);
    }

    fn alone(&self, bench: &mut Bench, url: &str, title: &str, members: usize) {
        let scores = self.turns(bench, url, Plan::free(1, bench.time), 25);
        print("1 task", &scores);
        let bare = &scores[0];
        let ratio = of(&scores, OURS).ratio(bare, p50);
        let aim = self.targets.alone[usize::from(members > 1)];
        bench.report.target(
            &format!("{title}, acquire and release, 1 task"),
            format!("{ratio:.2} × {}", bare.name),
            &format!("≤ {aim} × {}", bare.name),
            // In a short turn there may be no lock at all.
            0.0 < ratio && ratio <= aim,
        );
    }

    fn many(&self, bench: &mut Bench, url: &str, title: &str) {
        let scores = self.turns(bench, url, Plan::free(64, bench.time), 11);
        print("64 tasks, distinct keys", &scores);
        for (name, aim) in self.targets.many {
            let ratio = of(&scores, OURS).ratio(of(&scores, name), Outcome::rate);
            bench.report.target(
                &format!("{title}, 64 tasks, a key each, locks/s"),
                format!("{ratio:.2} × {name}"),
                &format!("≥ {aim} × {name}"),
                ratio >= *aim,
            );
        }
    }

    /// A release in one process, and the beginning of the body in another.
    fn hand_off(&self, bench: &mut Bench, url: &str, title: &str) {
        let passes = if bench.quick { 20 } else { 50 };
        let runtime = Flavor::Threads.build();
        let mut bare = Vec::new();
        let mut ours = Pair::start(ContenderKind::Ours, url);
        for _ in 0..bench.rounds(9) {
            bare.push(Summary::of(
                runtime.block_on((self.bare_hand_off)(url, passes)),
            ));
            ours.pass(passes, REST);
        }
        let rows = [(self.bare_name.to_owned(), bare), ours.results()];
        let ratio = handoff::print(&rows, "bare")[1];
        let aim = self.targets.hand_off;
        bench.report.target(
            &format!("{title}, release in one process → body starts in another"),
            format!("{ratio:.2} × {}", self.bare_name),
            &format!("≤ {aim} × {}", self.bare_name),
            0.0 < ratio && ratio <= aim,
        );
    }

    /// Clients that share nothing, as processes do, want one lock, and have it for 5 ms each.
    fn crowd(&self, bench: &mut Bench, url: &str, title: &str) {
        if self.waiting.is_empty() {
            return;
        }
        let runtime = Flavor::Threads.build();
        let crowds = self.waiting.iter().map(|(_, connect)| {
            let clients = (0..CROWD).map(|_| Arc::from(runtime.block_on(connect(url))));
            clients.collect::<Vec<Arc<dyn AnyContender>>>()
        });
        let crowds: Vec<_> = crowds.collect();
        let mut scores = scores(self.waiting);
        let plan = Plan {
            body: BODY,
            ..Plan::contended(1, bench.time * 4)
        };
        for _ in 0..bench.rounds(7) {
            for (score, clients) in scores.iter_mut().zip(&crowds) {
                let plan = plan.fresh();
                let turns = clients.iter().cloned();
                let turns = turns.map(|it| runtime.spawn(async move { it.drive(plan).await }));
                let turns: Vec<_> = turns.collect();
                let outcomes = turns.into_iter().map(|it| runtime.block_on(it).unwrap());
                let outcomes: Vec<_> = outcomes.collect();
                score.rounds.push(together(plan, &outcomes));
            }
        }
        runtime.block_on(async { drop(crowds) });
        print(&format!("{CROWD} clients, one key, {BODY:?} each"), &scores);
        for (name, aim) in self.targets.crowd {
            let ratio = of(&scores, OURS).ratio(of(&scores, name), Outcome::rate);
            bench.report.target(
                &format!("{title}, {CROWD} clients, one key, {BODY:?} each, locks/s"),
                format!("{ratio:.2} × {name}"),
                &format!("≥ {aim} × {name}"),
                ratio >= *aim,
            );
        }
    }

    /// Runs all contenders in turns, in an order that changes.
    fn turns(&self, bench: &Bench, url: &str, plan: Plan, rounds: usize) -> Vec<Score> {
        let runtime = Flavor::Threads.build();
        let contenders = self.contenders.iter();
        let contenders: Vec<Box<dyn AnyContender>> = contenders
            .map(|(_, connect)| runtime.block_on(connect(url)))
            .collect();
        let mut scores = scores(self.contenders);
        if !bench.quick {
            for contender in &contenders {
                runtime.block_on(contender.drive(plan.lasting(SETTLING)));
            }
        }
        for round in 0..bench.rounds(rounds) {
            for turn in 0..contenders.len() {
                let next = (round + turn) % contenders.len();
                runtime.block_on(contenders[next].drive(plan.warm_up()));
                let outcome = runtime.block_on(contenders[next].drive(plan.fresh()));
                scores[next].rounds.push(outcome);
            }
        }
        // A pool closes its connections on the runtime.
        runtime.block_on(async { drop(contenders) });
        scores
    }
}

fn scores(of: &[(&'static str, Connect)]) -> Vec<Score> {
    let scores = of.iter().map(|(name, _)| Score {
        name,
        rounds: Vec::new(),
    });
    scores.collect()
}

fn p50(outcome: &Outcome) -> f64 {
    micros(outcome.cost.p50)
}

fn of<'a>(scores: &'a [Score], name: &str) -> &'a Score {
    let mut scores = scores.iter();
    scores
        .find(|score| score.name == name)
        .expect("it took part")
}

/// Prints the results of all contenders, compared with the first one's.
fn print(title: &str, scores: &[Score]) {
    let bare = &scores[0];
    let columns = [
        "p50 µs",
        "p99 µs",
        "locks/s",
        &format!("p50 / {}", bare.name),
        &format!("locks/s / {}", bare.name),
    ];
    let mut table = Table::new(title, &columns);
    for score in scores {
        let cells = vec![
            format!("{:.0}", score.median(p50)),
            format!("{:.0}", score.median(|outcome| micros(outcome.cost.p99))),
            format!("{:.0}", score.median(Outcome::rate)),
            format!("{:.2}", score.ratio(bare, p50)),
            format!("{:.2}", score.ratio(bare, Outcome::rate)),
        ];
        table.row(score.name, cells);
    }
    println!();
    table.print();
}
