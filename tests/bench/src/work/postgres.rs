//! Locks in PostgreSQL, beside what the database needs for the least that a lock could do.

use crate::Bench;
use crate::contenders::postgres::client;
use crate::contenders::{AnyContender, ContenderKind, POSTGRES};
use crate::load::{Outcome, Plan, clock};
use crate::numbers::{Summary, median, micros};
use crate::postgres_server::PostgresServer;
use crate::report::Table;
use crate::runtime::Flavor;
use crate::work::handoff::{self, Pair, REST};
use std::time::Duration;
use tokio_postgres::{AsyncMessage, NoTls};

pub fn postgres(bench: &mut Bench) {
    let server = PostgresServer::start();
    let url = server.url();
    alone(bench, &url);
    many(bench, &url);
    hand_off(bench, &url);
}

/// The outcomes of one contender in all rounds.
struct Score {
    kind: ContenderKind,
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

fn p50(outcome: &Outcome) -> f64 {
    micros(outcome.cost.p50)
}

/// Runs all contenders in turns, in an order that changes.
fn run(bench: &Bench, url: &str, plan: Plan, rounds: usize) -> Vec<Score> {
    let runtime = Flavor::Threads.build();
    let connect = |kind: &ContenderKind| runtime.block_on(kind.connect(url));
    let contenders: Vec<Box<dyn AnyContender>> = POSTGRES.iter().map(connect).collect();
    let mut scores: Vec<_> = POSTGRES
        .map(|kind| Score {
            kind,
            rounds: Vec::new(),
        })
        .into();
    for round in 0..bench.rounds(rounds) {
        for turn in 0..POSTGRES.len() {
            let next = (round + turn) % POSTGRES.len();
            runtime.block_on(contenders[next].drive(plan.warm_up()));
            let outcome = runtime.block_on(contenders[next].drive(plan.fresh()));
            scores[next].rounds.push(outcome);
        }
    }
    // A pool closes its connections on the runtime.
    runtime.block_on(async { drop(contenders) });
    scores
}

fn print(title: &str, scores: &[Score]) {
    let versus = scores[0].kind;
    let columns = [
        "p50 µs",
        "p99 µs",
        "locks/s",
        &format!("p50 / {versus}"),
        &format!("locks/s / {versus}"),
    ];
    let mut table = Table::new(title, &columns);
    for score in scores {
        let cells = vec![
            format!("{:.0}", score.median(p50)),
            format!("{:.0}", score.median(|outcome| micros(outcome.cost.p99))),
            format!("{:.0}", score.median(Outcome::rate)),
            format!("{:.2}", score.ratio(&scores[0], p50)),
            format!("{:.2}", score.ratio(&scores[0], Outcome::rate)),
        ];
        table.row(&score.kind.to_string(), cells);
    }
    println!();
    table.print();
}

fn of(scores: &[Score], kind: ContenderKind) -> &Score {
    let mut scores = scores.iter();
    scores
        .find(|score| score.kind == kind)
        .expect("it took part")
}

fn alone(bench: &mut Bench, url: &str) {
    let plan = Plan::free(1, bench.time);
    let scores = run(bench, url, plan, 25);
    let title = "1 task";
    print(title, &scores);
    let updates = of(&scores, ContenderKind::Updates);
    let ratio = of(&scores, ContenderKind::Ours).ratio(updates, p50);
    bench.report.target(
        "PostgreSQL, acquire and release, 1 task",
        format!("{ratio:.2} × two updates"),
        "≤ 1.25 × two durable updates of one row",
        ratio <= 1.25,
    );
}

fn many(bench: &mut Bench, url: &str) {
    let plan = Plan::free(64, bench.time);
    let scores = run(bench, url, plan, 11);
    print("64 tasks, distinct keys", &scores);
    let ours = of(&scores, ContenderKind::Ours);
    for (kind, aim) in [(ContenderKind::Advisory, 15.0), (ContenderKind::Sqlx, 2.5)] {
        let ratio = ours.ratio(of(&scores, kind), Outcome::rate);
        bench.report.target(
            &format!("PostgreSQL, 64 tasks, a key each, beside {kind}"),
            format!("{ratio:.1} × {kind}"),
            &format!("≥ {aim} × {kind}"),
            ratio >= aim,
        );
    }
}

/// A release in one process, and the beginning of the body in another, beside a commit and a notification.
fn hand_off(bench: &mut Bench, url: &str) {
    let passes = if bench.quick { 20 } else { 100 };
    let runtime = Flavor::Threads.build();
    let mut bare = Vec::new();
    let mut ours = Pair::start(ContenderKind::Ours, url);
    for _ in 0..bench.rounds(9) {
        bare.push(Summary::of(runtime.block_on(notify(url, passes))));
        ours.pass(passes, REST);
    }
    let rows = [
        ("commit, NOTIFY → receive".to_owned(), bare),
        ours.results(),
    ];
    let ratio = handoff::print(&rows, "bare")[1];
    bench.report.target(
        "PostgreSQL, release in one process → body starts in another",
        format!("{ratio:.2} × commit and NOTIFY"),
        "≤ 1.7 × commit and NOTIFY",
        ratio <= 1.7,
    );
}

/// Returns the times from before a commit until another connection has received the notification that follows it.
async fn notify(url: &str, passes: u64) -> Vec<Duration> {
    let sender = client(url).await;
    let (listener, mut connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let (heard, mut messages) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(_) = message {
                let _ = heard.send(clock());
            }
        }
    });
    listener.batch_execute("LISTEN bench").await.unwrap();
    let update = "UPDATE updates SET n = n + 1 WHERE id = 0";
    let update = sender.prepare(update).await.unwrap();
    let mut times = Vec::new();
    for _ in 0..passes {
        tokio::time::sleep(2 * REST).await;
        let sent = clock();
        sender.execute(&update, &[]).await.unwrap();
        sender.batch_execute("NOTIFY bench").await.unwrap();
        times.push(messages.recv().await.unwrap() - sent);
    }
    times
}
