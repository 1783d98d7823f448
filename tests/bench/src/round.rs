//! Turns: every contender does the same for a short time, and then again.

use crate::Bench;
use crate::contenders::{Driver, Who};
use crate::crew::Crew;
use crate::load::{Outcome, Plan};
use crate::numbers::{median, micros};
use crate::report::Table;
use crate::runtime::Flavor;
use crate::server::{Server, Usage};

/// What one contender did in all rounds.
pub struct Score {
    pub who: Who,
    pub turns: Vec<Turn>,
}

#[derive(Clone, Copy)]
pub struct Turn {
    pub outcome: Outcome,
    pub usage: Usage,
}

impl Score {
    pub fn median(&self, value: impl Fn(&Turn) -> f64) -> f64 {
        median(self.turns.iter().map(value))
    }

    /// The median of the ratios of each round.
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

/// All take turns, in an order that changes, so that nobody always comes after the same other one.
async fn turns(
    server: &Server,
    entrants: &[(Who, Box<dyn Driver>)],
    plan: impl Fn(Who) -> Plan,
    rounds: usize,
) -> Vec<Score> {
    let mut scores: Vec<Score> = entrants
        .iter()
        .map(|(who, _)| Score {
            who: *who,
            turns: Vec::new(),
        })
        .collect();
    for round in 0..rounds {
        for turn in 0..entrants.len() {
            let next = (round + turn) % entrants.len();
            let (who, entrant) = &entrants[next];
            let plan = plan(*who);
            entrant.drive(plan.warm_up()).await;
            let before = server.usage();
            let outcome = entrant.drive(plan.fresh()).await;
            let usage = server.usage() - before;
            server.clear();
            scores[next].turns.push(Turn { outcome, usage });
        }
    }
    scores
}

pub fn of(scores: &[Score], who: Who) -> &Score {
    scores
        .iter()
        .find(|score| score.who == who)
        .expect("it took part")
}

/// All in so many processes, but for raw commands, which can't wait for each other.
async fn connect(url: &str, who: &[Who], processes: usize) -> Vec<(Who, Box<dyn Driver>)> {
    let mut entrants = Vec::new();
    for &who in who {
        let entrant: Box<dyn Driver> = match (who, processes) {
            (Who::Raw, _) | (_, 1) => who.connect(url).await,
            _ => Box::new(Crew::start(who, processes, 1, url)),
        };
        entrants.push((who, entrant));
    }
    entrants
}

/// The turns of a run: connects, and drives everybody in tasks of a runtime.
pub fn run(
    bench: &Bench,
    flavor: Flavor,
    who: &'static [Who],
    processes: usize,
    plan: impl Fn(Who) -> Plan + Send + 'static,
    rounds: usize,
) -> Vec<Score> {
    let server = bench.server.clone();
    flavor.run(async move {
        let entrants = connect(&server.url(), who, processes).await;
        turns(&server, &entrants, plan, rounds).await
    })
}

/// Everybody's numbers, compared with the first one's.
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
        ];
        table.row(&score.who.to_string(), cells);
    }
    println!();
    table.print();
}
