//! Uncontended locks.

use crate::Bench;
use crate::contenders::{ContenderKind, FREE};
use crate::load::Plan;
use crate::process_group::Size;
use crate::report::Report;
use crate::round::{self, Score, Turn};
use crate::runtime::Flavor;
use crate::server::Server;
use std::time::Duration;

/// One lock at a time: its cost for a caller. On one core, all work adds up. On several, waking another core
/// may cost more than the lock, and the system's choice of cores changes from time to time.
pub fn alone(bench: &mut Bench) {
    for core in [Some(0), None] {
        let cores = core.map_or("any core", |_| "one core");
        for flavor in [Flavor::Threads, Flavor::Current] {
            let title = format!("1 task, {flavor}, {cores}");
            let size = Size {
                flavor,
                core,
                ..Size::processes(1)
            };
            let scores = one_at_a_time(bench, &FREE, size, bench.time / 4);
            round::print(&title, &scores);
            let raw = round::of(&scores, ContenderKind::Raw);
            let ours = round::of(&scores, ContenderKind::Ours);
            let ratio = ours.ratio(raw, Turn::p50);
            bench.report.target(
                &format!("uncontended, {title}"),
                format!("{ratio:.3} × raw"),
                "≤ 1.05 × raw",
                ratio <= 1.05,
            );
            let (peer, ratio) = against_peers(ours, &scores, Turn::p50, f64::max);
            bench.report.target(
                &format!("uncontended, {title}, beside the fastest peer"),
                format!("{ratio:.3} × {peer}"),
                "≤ 1.00 × any peer",
                ratio <= 1.0,
            );
            let ratio = round::of(&scores, ContenderKind::Background).ratio(raw, Turn::p50);
            bench.report.target(
                &format!("uncontended, {title}, released in the background"),
                format!("{ratio:.3} × raw"),
                "≤ 0.60 × raw",
                ratio <= 0.60,
            );
        }
    }
}

/// Runs each contender with one task.
pub fn one_at_a_time(
    bench: &Bench,
    contenders: &[ContenderKind],
    size: Size,
    time: Duration,
) -> Vec<Score> {
    let plan = Plan::free(1, time);
    let with_plan = |contender: &ContenderKind| (*contender, size, plan);
    let contenders: Vec<_> = contenders.iter().map(with_plan).collect();
    if size.core.is_some() {
        round::run(&Server::start(size.core), &contenders, bench.rounds(15))
    } else {
        round::run(&bench.server, &contenders, bench.rounds(45))
    }
}

/// Many locks at a time: the throughput, and the work of client and server for each lock.
///
/// Callers on one thread have a core of their own, and the server another one. The system would put both on
/// the same core for a part of each turn, where a few callers are twice as fast, since no core has to be
/// woken.
pub fn many(bench: &mut Bench) {
    let apart = Server::start(Some(0));
    for flavor in [Flavor::Current, Flavor::Threads] {
        let (server, core) = match flavor {
            Flavor::Current => (&apart, Some(1)),
            Flavor::Threads => (&bench.server, None),
        };
        let size = Size {
            flavor,
            core,
            ..Size::processes(1)
        };
        for tasks in [8, 32, 64, 256, 1024] {
            let plan = Plan::free(tasks, bench.time);
            let contenders = FREE.map(|contender| (contender, size, plan));
            let scores = round::run(server, &contenders, bench.rounds(11));
            report_many(&mut bench.report, flavor, tasks, &scores);
        }
    }
}

type PerLock = fn(&Turn) -> f64;

fn report_many(report: &mut Report, flavor: Flavor, tasks: usize, scores: &[Score]) {
    let title = format!("{tasks} tasks, distinct keys, {flavor}");
    round::print(&title, scores);
    let [raw, ours, background] = [
        ContenderKind::Raw,
        ContenderKind::Ours,
        ContenderKind::Background,
    ]
    .map(|kind| round::of(scores, kind));
    let ratio = ours.ratio(raw, Turn::rate);
    report.target(
        &format!("{title}, locks/s"),
        format!("{ratio:.2} × raw"),
        "≥ 1.0 × raw",
        ratio >= 1.0,
    );
    let (peer, ratio) = against_peers(ours, scores, Turn::rate, f64::min);
    report.target(
        &format!("{title}, locks/s beside the best peer"),
        format!("{ratio:.2} × {peer}"),
        "≥ 1.3 × the best peer",
        ratio >= 1.3,
    );
    let ratio = background.ratio(ours, Turn::rate);
    report.target(
        &format!("{title}, locks/s with background release"),
        format!("{ratio:.2} × confirmed"),
        "≥ 1.1 × confirmed",
        ratio >= 1.1,
    );
    let sides: [(&str, PerLock); 2] = [
        ("client", Turn::client_cpu_per_lock),
        ("server", Turn::server_cpu_per_lock),
    ];
    for (side, cpu) in sides {
        let ratio = ours.ratio(raw, cpu);
        report.target(
            &format!("{title}, CPU of the {side}"),
            format!("{ratio:.2} × raw"),
            "≤ 1.0 × raw",
            ratio <= 1.0,
        );
        let ratio = background.ratio(ours, cpu);
        report.target(
            &format!("{title}, CPU of the {side} with background release"),
            format!("{ratio:.2} × confirmed"),
            "≤ 1.0 × confirmed",
            ratio <= 1.0,
        );
    }
}

/// Returns the ratio to the best peer: the worst one for this library.
pub fn against_peers(
    ours: &Score,
    scores: &[Score],
    value: impl Fn(&Turn) -> f64 + Copy,
    worse: impl Fn(f64, f64) -> f64,
) -> (ContenderKind, f64) {
    let peers = scores.iter().filter(|score| score.contender.is_peer());
    let ratios = peers.map(|peer| (peer.contender, ours.ratio(peer, value)));
    ratios
        .reduce(|a, b| if worse(a.1, b.1) == a.1 { a } else { b })
        .expect("there are peers")
}
