//! The rows of the table in RELIABILITY.md: each is played until it has had its faults.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::args::{Args, leave};
use crate::deployment::Topology;
use crate::fault::Kind;
use crate::instructions::{BodyLength, Workload};
use crate::journal::CallKind;
use crate::plan::Profile;
use crate::report::{Report, Tally};
use crate::schedule::Schedule;
use crate::soak::{self, Next};
use lock_test_support::time::millis;

struct Row {
    name: &'static str,
    what: &'static str,
    topologies: &'static [Topology],
    kinds: &'static [Kind],
    /// The average time until the next fault begins, in milliseconds.
    pause: u64,
    /// The kinds of functions that are called; all if empty.
    calls: &'static [CallKind],
    pace: BodyLength,
    /// The number of faults that each kind needs, …
    wanted: &'static [(Kind, usize)],
    /// … and the number of schedules.
    least: usize,
}

const SERVERS: &[Topology] = &[
    Topology::Standalone,
    Topology::Sentinel,
    Topology::Cluster,
    Topology::Quorum,
];

/// The defaults of a row.
const USUAL: Row = Row {
    name: "",
    what: "",
    topologies: SERVERS,
    kinds: &[],
    pause: 200,
    calls: &[],
    pace: BodyLength::Mixed,
    wanted: &[],
    least: 10,
};

const ROWS: &[Row] = &[
    Row {
        name: "1",
        what: "holders and waiters killed",
        kinds: &[Kind::WorkerKilled],
        pause: 150,
        wanted: &[(Kind::WorkerKilled, 400)],
        ..USUAL
    },
    Row {
        name: "3",
        what: "holders and waiters stopped, for up to 3 ttl",
        kinds: &[Kind::WorkerStopped],
        pause: 150,
        wanted: &[(Kind::WorkerStopped, 400)],
        ..USUAL
    },
    Row {
        name: "5",
        what: "requests, replies and messages delayed, held and lost",
        topologies: &[Topology::Standalone, Topology::Quorum],
        kinds: &[
            Kind::Delayed,
            Kind::RequestsHeld,
            Kind::RepliesHeld,
            Kind::BlackHole,
            Kind::ReplyLost,
            Kind::MessagesLost,
            Kind::ConnectionsCut,
        ],
        pause: 40,
        wanted: &[
            (Kind::RequestsHeld, 300),
            (Kind::RepliesHeld, 300),
            (Kind::ReplyLost, 300),
            (Kind::MessagesLost, 300),
        ],
        ..USUAL
    },
    Row {
        name: "6",
        what: "requests that arrive after their callers have gone",
        topologies: &[Topology::Standalone],
        kinds: &[Kind::RequestsHeld, Kind::WorkerKilled, Kind::RuntimeDropped],
        pause: 60,
        calls: &[CallKind::Dropped, CallKind::TriesOnce, CallKind::Waits],
        wanted: &[(Kind::RequestsHeld, 300), (Kind::WorkerKilled, 200)],
        ..USUAL
    },
    Row {
        name: "7",
        what: "messages lost, subscriptions killed",
        kinds: &[Kind::MessagesLost, Kind::ClientsKilled],
        pause: 100,
        calls: &[CallKind::Waits],
        wanted: &[(Kind::MessagesLost, 200), (Kind::ClientsKilled, 200)],
        ..USUAL
    },
    Row {
        name: "9",
        what: "servers that stall: slow scripts, pauses, sleep",
        kinds: &[Kind::ServerAsleep, Kind::SlowScript, Kind::ClientsPaused],
        wanted: &[
            (Kind::ServerAsleep, 100),
            (Kind::SlowScript, 100),
            (Kind::ClientsPaused, 100),
        ],
        ..USUAL
    },
    Row {
        name: "10, 11",
        what: "servers whose clocks are set, machines that sleep",
        topologies: &[Topology::Standalone, Topology::Sentinel, Topology::Quorum],
        kinds: &[Kind::ClockStepped],
        wanted: &[(Kind::ClockStepped, 300)],
        ..USUAL
    },
    Row {
        name: "12 Sentinel",
        what: "failovers, by order and by death",
        topologies: &[Topology::Sentinel],
        kinds: &[Kind::Failover, Kind::ServerKilled, Kind::ServerForgot],
        pause: 400,
        wanted: &[(Kind::Failover, 50)],
        ..USUAL
    },
    Row {
        name: "12 Cluster",
        what: "failovers, by order and by death",
        topologies: &[Topology::Cluster],
        kinds: &[Kind::Failover, Kind::ServerKilled, Kind::ServerForgot],
        pause: 400,
        wanted: &[(Kind::Failover, 50)],
        ..USUAL
    },
    Row {
        name: "13",
        what: "a server killed and started again, with and without its data",
        topologies: &[Topology::Standalone],
        kinds: &[Kind::ServerKilled, Kind::ServerForgot],
        pause: 300,
        wanted: &[(Kind::ServerKilled, 100), (Kind::ServerForgot, 100)],
        ..USUAL
    },
    Row {
        name: "14",
        what: "members of a quorum killed, stopped, slow, apart, empty",
        topologies: &[Topology::Quorum],
        kinds: &[
            Kind::ServerKilled,
            Kind::ServerForgot,
            Kind::ServerStopped,
            Kind::Delayed,
            Kind::RequestsHeld,
            Kind::RepliesHeld,
            Kind::BlackHole,
            Kind::ServerAsleep,
        ],
        pause: 100,
        wanted: &[(Kind::ServerForgot, 100), (Kind::BlackHole, 100)],
        ..USUAL
    },
    Row {
        name: "15",
        what: "slots that move to and fro",
        topologies: &[Topology::Cluster],
        kinds: &[Kind::SlotMoved],
        pause: 150,
        wanted: &[(Kind::SlotMoved, 100)],
        ..USUAL
    },
    Row {
        name: "17",
        what: "scripts flushed every 10 ms",
        kinds: &[Kind::ScriptsFlushed],
        pause: 10,
        wanted: &[(Kind::ScriptsFlushed, 4000)],
        ..USUAL
    },
    Row {
        name: "18",
        what: "threads blocked by bodies, runtimes dropped in mid-body",
        topologies: &[Topology::Memory, Topology::Standalone, Topology::Quorum],
        kinds: &[Kind::RuntimeDropped],
        pause: 300,
        calls: &[CallKind::Blocks, CallKind::Waits],
        wanted: &[(Kind::RuntimeDropped, 200)],
        ..USUAL
    },
    Row {
        name: "20",
        what: "nothing: every caller is served in order of arrival",
        topologies: &[Topology::Memory, Topology::Standalone, Topology::Sentinel],
        pause: 1000,
        calls: &[
            CallKind::Waits,
            CallKind::Guard,
            CallKind::Dropped,
            CallKind::TriesOnce,
        ],
        least: 30,
        ..USUAL
    },
    Row {
        name: "25",
        what: "holders asked for their locks, which block their threads or keep their guards",
        topologies: &Topology::ALL,
        kinds: &[Kind::Ask],
        pause: 250,
        calls: &[
            CallKind::Waits,
            CallKind::Blocks,
            CallKind::Guard,
            CallKind::Continues,
        ],
        pace: BodyLength::Lingering,
        wanted: &[(Kind::Ask, 1200)],
        least: 80,
    },
];

/// The time limit of a row, whatever faults it has had by then.
const LONGEST: Duration = Duration::from_secs(600);

pub fn run(args: &Args, names: &[&str]) -> ExitCode {
    let named = |row: &&Row| names.is_empty() || names.contains(&row.name);
    let rows: Vec<_> = ROWS.iter().filter(named).collect();
    if rows.is_empty() {
        leave(&format!("`{}` is not a row", names.join(" ")));
    }
    let mut table = String::new();
    let mut violations = 0;
    for row in rows {
        let report = row.play(args.lanes);
        println!("\n{report}");
        let tally = report.sum();
        violations += tally.violations;
        table += &row.line(&tally);
    }
    println!(
        "\n| row | what goes wrong | faults | holders, waiters hit | holds | two holders, excused | stale \
         writes refused | longest gap | violations |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n{table}"
    );
    ExitCode::from(u8::from(violations > 0))
}

impl Row {
    fn play(&self, lanes: usize) -> Report {
        println!("row {}: {}", self.name, self.what);
        let start = Instant::now();
        let has_had_enough = |tally: &Tally| {
            let count = |kind| tally.faults.get(kind).copied().unwrap_or_default();
            let mut wanted = self.wanted.iter();
            tally.schedules >= self.least && wanted.all(|(kind, most)| count(kind) >= *most)
        };
        let goes_on =
            |_, report: &Report| !has_had_enough(&report.sum()) && start.elapsed() < LONGEST;
        let next = |number: u64| {
            let topology = self.topologies[(number % self.topologies.len() as u64) as usize];
            let workload = Workload::default();
            let calls = match self.calls.is_empty() {
                true => workload.calls.clone(),
                false => self.calls.to_vec(),
            };
            Next::Schedule(Box::new(Schedule {
                profile: Profile {
                    pause: millis(self.pause),
                    ..Profile::only(self.kinds)
                },
                workload: Workload {
                    calls,
                    pace: self.pace,
                    ..workload
                },
                ..Schedule::of(topology, number + 1)
            }))
        };
        soak::run(lanes, goes_on, next, |_, _| {})
    }

    fn line(&self, tally: &Tally) -> String {
        let faults: usize = tally.faults.values().sum();
        let gap = tally.longest_gap as f64 / 1e9;
        let (holders, waiters) = tally.hit;
        format!(
            "| {} | {} | {faults} | {holders}, {waiters} | {} | {} | {} | {gap:.1} s | {} |\n",
            self.name, self.what, tally.holds, tally.double_holds, tally.refused, tally.violations,
        )
    }
}
