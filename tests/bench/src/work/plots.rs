//! The data of the plots.

use crate::Bench;
use crate::contenders::{ContenderKind, FREE, Retry};
use crate::load::Plan;
use crate::numbers::millis;
use crate::plot::{Line, Plot, Style};
use crate::process_group::Size;
use crate::round::{self, Score, Turn};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Plots the time of a lock and the throughput for a growing number of uncontended locks at a time.
pub fn scale(bench: &mut Bench) {
    let steps = [1, 4, 16, 64, 256, 1024];
    let scores = steps.map(|tasks| {
        // The results of a few tasks depend on the core of each thread, so there are many short turns.
        let (time, rounds) = match tasks {
            ..=16 => (bench.time / 4, 25),
            _ => (bench.time, 7),
        };
        let plan = Plan::free(tasks, time);
        let contender = FREE.map(|contender| (contender, Size::processes(1), plan));
        let scores = round::run(&bench.server, &contender, bench.rounds(rounds));
        round::print(&format!("{tasks} tasks, distinct keys"), &scores);
        (tasks as f64, scores)
    });
    let latency = Plot {
        title: "acquire + release, distinct keys: latency",
        x: "tasks at a time",
        y: "median, µs (less is better)",
        lines: lines(&scores, |score| score.median(Turn::p50)),
    };
    save(bench, "latency", &latency);
    let throughput = Plot {
        title: "acquire + release, distinct keys: throughput",
        x: "tasks at a time",
        y: "locks per second (more is better)",
        lines: lines(&scores, |score| score.median(Turn::rate)),
    };
    save(bench, "throughput", &throughput);
}

const WAITING: [ContenderKind; 7] = [
    ContenderKind::Ours,
    ContenderKind::Rslock(Retry::Tuned),
    ContenderKind::Rlock(Retry::Tuned),
    ContenderKind::Distkit(Retry::Tuned),
    ContenderKind::Rslock(Retry::Default),
    ContenderKind::Rlock(Retry::Default),
    ContenderKind::Distkit(Retry::Default),
];

/// Plots the wait of tasks that want one lock at the same time, each for 5 ms, in four processes.
pub fn waiting(bench: &mut Bench) {
    let body = Duration::from_millis(5);
    let wait = |turn: &Turn| millis(turn.outcome.wait.mean);
    let steps = [4, 8, 16, 32, 64];
    let scores = steps.map(|waiters| {
        let plan = Plan::line(waiters, body);
        let contender = WAITING.map(|contender| (contender, Size::processes(4), plan));
        let scores = round::run(&bench.server, &contender, bench.rounds(3));
        for score in &scores {
            println!(
                "{waiters} waiters: {:<28} {:.1} ms",
                score.contender,
                score.median(wait)
            );
        }
        (waiters as f64, scores)
    });
    let mut lines = lines(&scores, |score| score.median(wait));
    let ideal = |waiters: usize| (waiters as f64, (waiters as f64 - 1.0) / 2.0 * millis(body));
    lines.push(Line {
        name: "no time in between".to_owned(),
        points: steps.map(ideal).into(),
        style: Style::Floor,
    });
    let plot = Plot {
        title: "one lock, 5 ms each, four processes: waiting",
        x: "waiters",
        y: "mean wait, ms (less is better)",
        lines,
    };
    save(bench, "waiting", &plot);
}

fn lines(steps: &[(f64, Vec<Score>)], value: impl Fn(&Score) -> f64) -> Vec<Line> {
    let first = &steps[0].1;
    let shown = first.iter().filter(|score| {
        let variant = [ContenderKind::Background, ContenderKind::Attribute];
        !variant.contains(&score.contender)
    });
    let line = |score: &Score| Line {
        name: score.contender.to_string(),
        points: steps
            .iter()
            .map(|(step, scores)| (*step, value(round::of(scores, score.contender))))
            .collect(),
        style: style(score.contender),
    };
    shown.map(line).collect()
}

fn style(contender: ContenderKind) -> Style {
    let (peer, retry) = match contender {
        ContenderKind::Ours
        | ContenderKind::Background
        | ContenderKind::Lazy
        | ContenderKind::Attribute
        | ContenderKind::Read
        | ContenderKind::Permits => return Style::Ours,
        ContenderKind::Raw => return Style::Floor,
        ContenderKind::Rslock(retry) => (0, retry),
        ContenderKind::Rlock(retry) => (1, retry),
        ContenderKind::AsyncRedisLock(retry) => (2, retry),
        ContenderKind::Distkit(retry) => (3, retry),
        ContenderKind::Foreign(foreign) => (4, foreign.parts().1),
        ContenderKind::Polled(retry) => (5, retry),
    };
    Style::Peer {
        peer,
        dashed: retry == Retry::Tuned,
    }
}

pub fn save(bench: &Bench, name: &str, plot: &Plot) {
    if bench.quick {
        return println!("no plot `{name}`: too quick to be shown");
    }
    let plots = Path::new(env!("CARGO_MANIFEST_DIR")).join("plots");
    let file = plots.join(format!("{name}.svg"));
    fs::write(&file, plot.draw()).unwrap();
    println!("drew {}", file.display());
}
