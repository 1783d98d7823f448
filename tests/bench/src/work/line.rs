//! Several tasks want one lock at the same time, each for 5 ms: the time until all have held it.

use crate::Bench;
use crate::contenders::{ContenderKind, WAITING};
use crate::load::{Plan, Until};
use crate::numbers::millis;
use crate::process_group::Size;
use crate::report::Table;
use crate::round::{self, Score, Turn};
use std::time::Duration;

pub const BODY: Duration = Duration::from_millis(5);
pub const WAITERS: usize = 20;

pub fn line(bench: &mut Bench) {
    let plan = Plan::line(WAITERS, BODY);
    for (processes, most) in [(1, 1.05), (4, 1.15)] {
        let title = format!("{WAITERS} × 5 ms in {processes} process(es)");
        let scores = measure(bench, &title, &WAITING, processes, plan);
        let ratio = round::of(&scores, ContenderKind::Ours).median(done) / ideal(plan);
        bench.report.target(
            &format!("{WAITERS} waiters × 5 ms body, {processes} process(es)"),
            format!("{ratio:.3} × ideal"),
            &format!("≤ {most:.2} × the ideal {:.0} ms", ideal(plan)),
            ratio <= most,
        );
    }
}

/// Runs the plan with its tasks spread over the processes, and prints the results.
pub fn measure(
    bench: &Bench,
    title: &str,
    contenders: &[ContenderKind],
    processes: usize,
    plan: Plan,
) -> Vec<Score> {
    let with_plan = |contender: &ContenderKind| (*contender, Size::processes(processes), plan);
    let contenders: Vec<_> = contenders.iter().map(with_plan).collect();
    let scores = round::run(&bench.server, &contenders, bench.rounds(5));
    let columns = [
        "all done ms",
        "/ ideal",
        "holds/s",
        "mean wait ms",
        "longest ms",
        "commands/lock",
        "server µs/lock",
    ];
    let mut table = Table::new(title, &columns);
    for score in &scores {
        let cells = vec![
            format!("{:.1}", score.median(done)),
            format!("{:.3}", score.median(done) / ideal(plan)),
            format!("{:.1}", score.median(Turn::rate)),
            format!("{:.1}", score.median(|turn| millis(turn.outcome.wait.mean))),
            format!("{:.1}", score.median(longest)),
            format!("{:.1}", score.median(Turn::commands_per_lock)),
            format!("{:.1}", score.median(Turn::server_cpu_per_lock)),
        ];
        table.row(&score.contender.to_string(), cells);
    }
    println!();
    table.print();
    scores
}

/// Returns the milliseconds of all bodies, one after the other.
fn ideal(plan: Plan) -> f64 {
    let locks = match plan.until {
        Until::Locks(locks) => locks,
        Until::Time(_) => 0,
    };
    millis(plan.body) * plan.tasks as f64 * locks as f64
}

fn done(turn: &Turn) -> f64 {
    millis(turn.outcome.elapsed)
}

pub fn longest(turn: &Turn) -> f64 {
    millis(turn.outcome.wait.most)
}
