//! Locks that stay with their process between its calls, beside those that are released each time.

use crate::Bench;
use crate::child::{Child, serve};
use crate::contenders::ours::config;
use crate::contenders::{ContenderKind, TTL};
use crate::load::Plan;
use crate::numbers::{Summary, median, micros};
use crate::plot::{Line, Plot, Style};
use crate::process;
use crate::process_group::Size;
use crate::report::Table;
use crate::round::{self, Turn};
use crate::runtime::Flavor;
use crate::work::free::one_at_a_time;
use crate::work::handoff::{self, Pair};
use crate::work::plots::save;
use lock_runtime::{LockManager, ReleaseMode};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

pub const KIND: &str = "lazy";

const BOTH: [ContenderKind; 2] = [ContenderKind::Ours, ContenderKind::Lazy];

pub fn lazy(bench: &mut Bench) {
    calls(bench);
    let url = bench.server.url();
    recalls(bench, &url, "Redis", handoff::REST);
    shares(bench, &url, "Redis", &[0, 50, 80, 90, 99]);
    kept(bench);
}

/// The same locks in another engine.
pub fn in_engine(bench: &mut Bench, url: &str, title: &str, rest: Duration) {
    repeated(bench, url, title);
    recalls(bench, url, title, rest);
    shares(bench, url, title, &[0]);
}

/// Calls of one process for its own key.
fn repeated(bench: &mut Bench, url: &str, title: &str) {
    let mut child = Child::start(KIND, &[url]);
    child.ask("lazy row 1 20");
    let mut rounds = [Vec::new(), Vec::new()];
    for _ in 0..bench.rounds(9) {
        for (order, p50s) in ["lazy row 1 2000", "confirmed other 1 100"]
            .into_iter()
            .zip(&mut rounds)
        {
            p50s.push(micros(read(&child.ask(order)).p50));
        }
    }
    let [lazy, confirmed] = rounds.map(median);
    bench.report.target(
        &format!("{title}, released lazily, 1 task, one key"),
        format!("{lazy:.2} µs beside {confirmed:.0} µs"),
        "≤ 1 µs",
        lazy <= 1.0,
    );
}

/// Calls of one process for its own keys.
fn calls(bench: &mut Bench) {
    let size = Size::processes(1);
    let scores = one_at_a_time(bench, &BOTH, size, bench.time / 4);
    round::print(
        "1 task, one key, released lazily or with confirmation",
        &scores,
    );
    let [confirmed, lazy] = BOTH.map(|kind| round::of(&scores, kind));
    let (p50, ratio) = (lazy.median(Turn::p50), confirmed.ratio(lazy, Turn::p50));
    bench.report.target(
        "released lazily, 1 task, one key",
        format!("{p50:.2} µs, {ratio:.0} × as fast"),
        "≤ 1 µs, ≥ 100 × the confirmed release",
        p50 <= 1.0 && ratio >= 100.0,
    );
    let plan = Plan::free(64, bench.time);
    let contenders = BOTH.map(|contender| (contender, size, plan));
    let scores = round::run(&bench.server, &contenders, bench.rounds(11));
    round::print(
        "64 tasks, a key each, released lazily or with confirmation",
        &scores,
    );
    let [confirmed, lazy] = BOTH.map(|kind| round::of(&scores, kind));
    let ratio = lazy.ratio(confirmed, Turn::rate);
    bench.report.target(
        "released lazily, 64 tasks, a key each",
        format!(
            "{:.0} locks/s, {ratio:.1} × confirmed",
            lazy.median(Turn::rate)
        ),
        "≥ 8 × the confirmed release",
        ratio >= 8.0,
    );
}

/// A call for a lock that another process keeps, beside an ordinary hand-off.
fn recalls(bench: &mut Bench, url: &str, title: &str, rest: Duration) {
    let count = if bench.quick { 20 } else { 200 };
    let mut pair = Pair::start(ContenderKind::Ours, url);
    let mut both = [(); 2].map(|()| Child::start(KIND, &[url]));
    let mut rounds = Vec::new();
    for round in 0..bench.rounds(9) {
        pair.pass(count, rest);
        let key = format!("recalled:{round}");
        both[0].ask(&format!("lazy {key} {count} 3"));
        rounds.push(read(&both[1].ask(&format!("take {key} {count} 1"))));
    }
    let (_, handed) = pair.results();
    let ratios = rounds.iter().zip(&handed);
    let ratio = median(ratios.map(|(recalled, handed)| micros(recalled.p50) / micros(handed.p50)));
    let of = |part: fn(&Summary) -> Duration| median(rounds.iter().map(|it| micros(part(it))));
    bench.report.target(
        &format!("{title}, a call for a lock that another process keeps"),
        format!(
            "{:.0} µs, p99 {:.0} µs, {ratio:.2} × a hand-off",
            of(|it| it.p50),
            of(|it| it.p99)
        ),
        "≤ 2.2 × an ordinary hand-off",
        ratio <= 2.2,
    );
}

/// Calls one after the other, of which a part goes to the process that had the one before.
fn shares(bench: &mut Bench, url: &str, title: &str, shares: &[u32]) {
    let calls = if bench.quick { 100 } else { 1000 };
    let columns = ["confirmed µs", "lazy µs", "lazy / confirmed"];
    let mut table = Table::new(
        &format!("{title}, mean of a call, by the share for the same process"),
        &columns,
    );
    let mut points = [Vec::new(), Vec::new()];
    for &share in shares {
        let mut both = [(); 2].map(|()| Child::start(KIND, &[url]));
        let mut means = [Vec::new(), Vec::new()];
        for round in 0..bench.rounds(5) {
            for (mode, means) in ["confirmed", "lazy"].into_iter().zip(&mut means) {
                let key = format!("shared:{share}:{round}:{mode}");
                // The subscription must be up, and a recall be over.
                for child in &mut both {
                    child.ask(&format!("{mode} {key}:warm 1 20"));
                }
                let (mut at, mut sum) = (0, Duration::ZERO);
                for call in 0..calls {
                    // The same calls in each round and mode.
                    let stays = call % 100 * 61 % 100 < share;
                    at = if stays { at } else { 1 - at };
                    sum += read(&both[at].ask(&format!("{mode} {key} 1 1"))).mean;
                }
                means.push(micros(sum) / f64::from(calls));
            }
        }
        let [confirmed, lazy] = &means;
        let ratio = median(
            lazy.iter()
                .zip(confirmed)
                .map(|(lazy, confirmed)| lazy / confirmed),
        );
        let [confirmed, lazy] = means.map(median);
        for (points, mean) in points.iter_mut().zip([confirmed, lazy]) {
            points.push((100.0 / (100.0 - f64::from(share)), mean));
        }
        let cells = [confirmed, lazy].map(|mean| format!("{mean:.1}"));
        table.row(
            &format!("{share} %"),
            [&cells[..], &[format!("{ratio:.2}")]].concat(),
        );
        if share == 0 {
            bench.report.target(
                &format!("{title}, processes that alternate, released lazily"),
                format!("{ratio:.2} × confirmed"),
                "≤ 1.1 × confirmed",
                ratio <= 1.1,
            );
        }
    }
    println!();
    table.print();
    if shares.len() == 1 {
        return;
    }
    let lines = [("confirmed", Style::Floor), ("lazy", Style::Ours)];
    let lines = lines.into_iter().zip(points);
    let lines = lines.map(|((name, style), points)| Line {
        name: name.to_owned(),
        points,
        style,
    });
    let plot = Plot {
        title: "one key, two processes: a call, released lazily or with confirmation",
        x: "calls in a row in the same process",
        y: "mean, µs (less is better)",
        lines: lines.collect(),
    };
    save(bench, "lazy", &plot);
}

/// Many locks that are kept, in a manager that may keep so many.
fn kept(bench: &mut Bench) {
    let count = if bench.quick { 1000 } else { 100_000 };
    let mut child = Child::start(KIND, &[&bench.server.url()]);
    child.ask("lazy warm 1 20");
    let before: f64 = child.ask("heap").parse().unwrap();
    child.ask(&format!("keep kept {count} 1"));
    let each = (child.ask("heap").parse::<f64>().unwrap() - before) / f64::from(count);
    // None of them is due for renewal before a third of the ttl.
    let (time, start) = (Duration::from_secs(4), process::cpu(child.id()));
    let begun = Instant::now();
    sleep(time);
    let used = process::cpu(child.id()) - start;
    let share = used.as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0;
    bench.report.target(
        &format!("{count} kept locks"),
        format!("{each:.0} bytes each, {share:.2} % of a core"),
        "≤ 800 bytes each, ≤ 0.2 % of a core",
        each <= 800.0 && share <= 0.2,
    );
    drop(child);
    bench.server.clear();
}

fn read(answer: &str) -> Summary {
    let mut numbers = answer.split(' ').map(|word| word.parse().unwrap());
    Summary::read(&mut numbers).unwrap()
}

/// Orders: `heap`, or what to do, the beginning of the keys, how many keys, and how many calls for each of
/// them. Replies with the times of the calls, and to `take` with those until each had its lock.
pub fn child(arguments: &[String]) {
    let [url] = arguments else {
        panic!("expected a URL");
    };
    let runtime = Flavor::Threads.build();
    let config = config(url).max_kept(1_000_000);
    let locks = runtime.block_on(LockManager::connect(config)).unwrap();
    serve(|order| {
        if order == "heap" {
            return process::heap().to_string();
        }
        let [mode, key, keys, calls] = order.split(' ').collect::<Vec<_>>()[..] else {
            panic!("expected a mode, a key, and two numbers");
        };
        let release = match mode {
            "lazy" | "keep" => ReleaseMode::Lazy,
            _ => ReleaseMode::Confirmed,
        };
        let [keys, calls] = [keys, calls].map(|number| number.parse::<u64>().unwrap());
        let call = async |key: String| {
            let lock = locks.lock(key).ttl(TTL).wait(Duration::MAX);
            let begun = Instant::now();
            let guard = lock.release_mode(release).acquire().await.unwrap();
            let had = begun.elapsed();
            guard.release().await.unwrap();
            if mode == "take" { had } else { begun.elapsed() }
        };
        let mut times = Vec::new();
        runtime.block_on(async {
            let keys: Vec<_> = (0..keys).map(|n| format!("{key}:{n}")).collect();
            if mode == "keep" {
                // At once, before the first of them is due for renewal.
                for some in keys.chunks(1000) {
                    let mut calls = JoinSet::new();
                    for key in some {
                        let lock = locks.lock(key).ttl(TTL).release_mode(release);
                        calls.spawn(lock.run(async |_| ()));
                    }
                    while let Some(ended) = calls.join_next().await {
                        ended.unwrap().unwrap();
                    }
                }
                return;
            }
            for key in keys {
                for _ in 0..calls {
                    times.push(call(key.clone()).await);
                }
            }
        });
        Summary::of(times).write()
    });
}
