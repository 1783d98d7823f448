//! Several tasks want one lock at the same time, each for 5 ms: the time until all have held it.

use crate::Bench;
use crate::contenders::{ContenderKind, WAITING};
use crate::load::Plan;
use crate::numbers::millis;
use crate::process_group::Size;
use crate::report::Table;
use crate::round::{self, Turn};
use std::time::Duration;

const BODY: Duration = Duration::from_millis(5);
const WAITERS: usize = 20;

pub fn line(bench: &mut Bench) {
    let ideal = millis(BODY) * WAITERS as f64;
    for (processes, most) in [(1, 1.05), (4, 1.15)] {
        let plan = Plan::line(WAITERS, BODY);
        let rounds = bench.rounds(5);
        let contender = WAITING.map(|contender| (contender, Size::processes(processes), plan));
        let scores = round::run(&bench.server, &contender, rounds);
        let title = format!("{WAITERS} × 5 ms in {processes} process(es)");
        let columns = [
            "all done ms",
            "/ ideal",
            "mean wait ms",
            "longest ms",
            "commands/lock",
        ];
        let mut table = Table::new(&title, &columns);
        for score in &scores {
            let cells = vec![
                format!("{:.1}", score.median(done)),
                format!("{:.3}", score.median(done) / ideal),
                format!("{:.1}", score.median(|turn| millis(turn.outcome.wait.mean))),
                format!("{:.1}", score.median(|turn| millis(turn.outcome.wait.most))),
                format!(
                    "{:.1}",
                    score.median(|turn| turn.per_lock(|used| used.commands as f64))
                ),
            ];
            table.row(&score.contender.to_string(), cells);
        }
        println!();
        table.print();
        let ratio = round::of(&scores, ContenderKind::Ours).median(done) / ideal;
        bench.report.target(
            &format!("{WAITERS} waiters × 5 ms body, {processes} process(es)"),
            format!("{ratio:.3} × ideal"),
            &format!("≤ {most:.2} × the ideal {ideal:.0} ms"),
            ratio <= most,
        );
    }
}

fn done(turn: &Turn) -> f64 {
    millis(turn.outcome.elapsed)
}
