//! Turns: every contender does the same for a short time, in several rounds.

use crate::contenders::Who;
use crate::crew::{Crew, Size};
use crate::load::{Outcome, Plan};
use crate::numbers::{median, micros};
use crate::report::Table;
use crate::server::{Server, Usage};
use std::time::Duration;

/// The results of one contender in all rounds.
pub struct Score {
    pub who: Who,
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

    pub fn per_lock(&self, of: impl Fn(&Usage) -> f64) -> f64 {
        of(&self.usage) / self.outcome.locks() as f64
    }
}

/// Runs all contenders in turns, in an order that changes, so that none always follows the same other one.
pub fn run(server: &Server, who: &[(Who, Size, Plan)], rounds: usize) -> Vec<Score> {
    let url = server.url();
    let mut scores: Vec<Score> = who
        .iter()
        .map(|(who, ..)| Score {
            who: *who,
            turns: Vec::new(),
        })
        .collect();
    let start = |(who, size, _): &(Who, Size, Plan)| Crew::start(*who, *size, &url);
    let mut crews: Vec<Crew> = who.iter().map(start).collect();
    for round in 0..rounds {
        for turn in 0..who.len() {
            let next = (round + turn) % who.len();
            let (.., plan) = who[next];
            let crew = &mut crews[next];
            crew.drive(plan.warm_up());
            let (before, cpu) = (server.usage(), crew.cpu());
            let outcome = crew.drive(plan.fresh());
            let turn = Turn {
                outcome,
                usage: server.usage() - before,
                cpu: crew.cpu().saturating_sub(cpu),
            };
            server.clear();
            scores[next].turns.push(turn);
        }
    }
    scores
}

pub fn of(scores: &[Score], who: Who) -> &Score {
    scores
        .iter()
        .find(|score| score.who == who)
        .expect("the contender took part")
}

/// Prints the results of all contenders, compared with the first one's.
pub fn print(title: &str, scores: &[Score]) {
    let first = &scores[0];
    let versus = first.who.to_string();
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
            format!(
                "{:.2}",
                score.median(|turn| turn.per_lock(|used| used.commands as f64))
            ),
            format!(
                "{:.2}",
                score.median(|turn| turn.per_lock(|used| micros(used.cpu)))
            ),
            format!(
                "{:.2}",
                score.median(|turn| micros(turn.cpu) / turn.outcome.locks() as f64)
            ),
        ];
        table.row(&score.who.to_string(), cells);
    }
    println!();
    table.print();
}
