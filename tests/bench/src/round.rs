//! Turns: every contender does the same for a short time, in several rounds.

use crate::contenders::ContenderKind;
use crate::load::{Outcome, Plan};
use crate::numbers::{median, micros};
use crate::process_group::{ProcessGroup, Size};
use crate::report::Table;
use crate::server::{Server, Usage};
use std::time::Duration;

/// The results of one contender in all rounds.
pub struct Score {
    pub contender: ContenderKind,
    pub turns: Vec<Turn>,
}

#[derive(Clone, Copy)]
pub struct Turn {
    pub outcome: Outcome,
    pub usage: Usage,
    /// The CPU time of the contender's own processes.
    pub cpu: Duration,
}

impl Score {
    pub fn median(&self, value: impl Fn(&Turn) -> f64) -> f64 {
        median(self.turns.iter().map(value))
    }

    /// Returns the median of the ratios of each round.
    pub fn ratio(&self, other: &Score, value: impl Fn(&Turn) -> f64) -> f64 {
        let rounds = self.turns.iter().zip(&other.turns);
        median(rounds.map(|(mine, theirs)| value(mine) / value(theirs)))
    }

    fn spread(&self, other: &Score, value: impl Fn(&Turn) -> f64) -> (f64, f64) {
        let rounds = self.turns.iter().zip(&other.turns);
        let ratios = rounds.map(|(mine, theirs)| value(mine) / value(theirs));
        ratios.fold((f64::MAX, 0.0), |(least, most), ratio| {
            (ratio.min(least), ratio.max(most))
        })
    }
}

impl Turn {
    pub fn rate(&self) -> f64 {
        self.outcome.rate()
    }

    pub fn p50(&self) -> f64 {
        micros(self.outcome.cost.p50)
    }

    /// Microseconds of the contender's processes.
    pub fn client_cpu_per_lock(&self) -> f64 {
        micros(self.cpu) / self.outcome.locks() as f64
    }

    /// Microseconds of the server.
    pub fn server_cpu_per_lock(&self) -> f64 {
        self.per_lock(|used| micros(used.cpu))
    }

    pub fn commands_per_lock(&self) -> f64 {
        self.per_lock(|used| used.commands as f64)
    }

    fn per_lock(&self, of: impl Fn(&Usage) -> f64) -> f64 {
        of(&self.usage) / self.outcome.locks() as f64
    }
}

/// Runs all contenders in turns, in an order that changes, so that none always follows the same other one.
pub fn run(
    server: &Server,
    contender: &[(ContenderKind, Size, Plan)],
    rounds: usize,
) -> Vec<Score> {
    run_at(&server.url(), server, contender, rounds)
}

/// Like [`run`], for contenders that reach the server at `url`.
pub fn run_at(
    url: &str,
    server: &Server,
    contender: &[(ContenderKind, Size, Plan)],
    rounds: usize,
) -> Vec<Score> {
    let mut scores: Vec<Score> = contender
        .iter()
        .map(|(contender, ..)| Score {
            contender: *contender,
            turns: Vec::new(),
        })
        .collect();
    let start = |(contender, size, _): &(ContenderKind, Size, Plan)| {
        ProcessGroup::start(*contender, *size, url)
    };
    let mut groups: Vec<ProcessGroup> = contender.iter().map(start).collect();
    for round in 0..rounds {
        for turn in 0..contender.len() {
            let next = (round + turn) % contender.len();
            let (.., plan) = contender[next];
            let group = &mut groups[next];
            group.drive(plan.warm_up());
            let (before, cpu) = (server.usage(), group.cpu());
            let outcome = group.drive(plan.fresh());
            let turn = Turn {
                outcome,
                usage: server.usage() - before,
                cpu: group.cpu().saturating_sub(cpu),
            };
            server.clear();
            scores[next].turns.push(turn);
        }
    }
    scores
}

pub fn of(scores: &[Score], contender: ContenderKind) -> &Score {
    scores
        .iter()
        .find(|score| score.contender == contender)
        .expect("the contender took part")
}

/// Prints the results of all contenders, compared with the first one's.
pub fn print(title: &str, scores: &[Score]) {
    let first = &scores[0];
    let versus = first.contender.to_string();
    let columns = [
        "p50 µs",
        "p99 µs",
        "locks/s",
        &format!("p50 / {versus}"),
        &format!("locks/s / {versus}"),
        "(least–most)",
        "commands/lock",
        "server µs/lock",
        "client µs/lock",
    ];
    let mut table = Table::new(title, &columns);
    for score in scores {
        let (least, most) = score.spread(first, Turn::rate);
        let cells = vec![
            format!("{:.1}", score.median(Turn::p50)),
            format!("{:.0}", score.median(|turn| micros(turn.outcome.cost.p99))),
            format!("{:.0}", score.median(Turn::rate)),
            format!("{:.3}", score.ratio(first, Turn::p50)),
            format!("{:.3}", score.ratio(first, Turn::rate)),
            format!("{least:.2}–{most:.2}"),
            format!("{:.2}", score.median(Turn::commands_per_lock)),
            format!("{:.2}", score.median(Turn::server_cpu_per_lock)),
            format!("{:.2}", score.median(Turn::client_cpu_per_lock)),
        ];
        table.row(&score.contender.to_string(), cells);
    }
    println!();
    table.print();
}
