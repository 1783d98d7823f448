//! Several clients share a few permits: the throughput, beside that of permits that are never idle, and of a
//! semaphore that polls.

use crate::Bench;
use crate::contenders::{ContenderKind, PERMITS, Retry};
use crate::load::Plan;
use crate::numbers::millis;
use crate::process_group::Size;
use crate::report::Table;
use crate::round::{self, Score, Turn};
use std::time::Duration;

const CLIENTS: usize = 16;
const PROCESSES: usize = 4;
const BODY: Duration = Duration::from_millis(5);

const ALL: [ContenderKind; 3] = [
    ContenderKind::Permits,
    ContenderKind::Polled(Retry::Tuned),
    ContenderKind::Polled(Retry::Default),
];

pub fn permits(bench: &mut Bench) {
    let title = format!("{CLIENTS} clients, {PERMITS} permits, {BODY:?}");
    let all_along = Plan {
        body: BODY,
        ..Plan::contended(CLIENTS, bench.time * 5)
    };
    let scores = measure(bench, &format!("{title}, all the time"), all_along);
    let share = round::of(&scores, ContenderKind::Permits).median(of_ideal);
    bench.report.target(
        &format!("{title}, all the time, throughput"),
        format!("{share:.3} × ideal"),
        "≥ 0.9 × ideal",
        share >= 0.9,
    );
    beside_polling(bench, &format!("{title}, all the time"), &scores);
    let once = Plan::line(CLIENTS, BODY);
    let scores = measure(bench, &format!("{title}, each once"), once);
    beside_polling(bench, &format!("{title}, each once"), &scores);
}

fn beside_polling(bench: &mut Bench, title: &str, scores: &[Score]) {
    let ours = round::of(scores, ContenderKind::Permits);
    for polled in &ALL[1..] {
        let ratio = ours.ratio(round::of(scores, *polled), Turn::rate);
        bench.report.target(
            &format!("{title}, permits/s beside a sorted set, own contender"),
            format!("{ratio:.2} × {polled}"),
            "≥ 1.5 × polling",
            ratio >= 1.5,
        );
    }
}

fn measure(bench: &Bench, title: &str, plan: Plan) -> Vec<Score> {
    let contenders = ALL.map(|contender| (contender, Size::processes(PROCESSES), plan));
    let scores = round::run(&bench.server, &contenders, bench.rounds(7));
    let columns = [
        "permits/s",
        "/ ideal",
        "mean wait ms",
        "longest ms",
        "commands/permit",
        "server µs/permit",
    ];
    let mut table = Table::new(title, &columns);
    for score in &scores {
        let wait = |turn: &Turn| turn.outcome.wait;
        let cells = vec![
            format!("{:.0}", score.median(Turn::rate)),
            format!("{:.3}", score.median(of_ideal)),
            format!("{:.1}", score.median(|turn| millis(wait(turn).mean))),
            format!("{:.1}", score.median(|turn| millis(wait(turn).most))),
            format!("{:.1}", score.median(Turn::commands_per_lock)),
            format!("{:.1}", score.median(Turn::server_cpu_per_lock)),
        ];
        table.row(&score.contender.to_string(), cells);
    }
    println!();
    table.print();
    scores
}

/// Returns the throughput beside that of permits that pass from body to body in no time. Bodies are counted
/// with their true length, which timers prolong.
fn of_ideal(turn: &Turn) -> f64 {
    turn.rate() * turn.outcome.body.mean.as_secs_f64() / f64::from(PERMITS)
}
