//! Locks of libraries for Java and Go, in processes of their own. Libraries are skipped if their tools are
//! not installed, or their packages cannot be downloaded.

use crate::Bench;
use crate::contenders::foreign::{Foreign, Language};
use crate::contenders::{ContenderKind, Retry};
use crate::load::{Plan, Until};
use crate::process_group::Size;
use crate::round::{self, Score, Turn};
use crate::work::free::{against_peers, one_at_a_time};
use crate::work::handoff::{self, Pair, REST};
use crate::work::line::{self, BODY, WAITERS, longest};

const ALONE: [Foreign; 4] = [
    Foreign::Redisson,
    Foreign::RedissonFair,
    Foreign::Redsync(Retry::Default),
    Foreign::Redislock(Retry::Default),
];

/// Those that retry do so every 10 ms.
const TUNED: [Foreign; 4] = [
    Foreign::Redisson,
    Foreign::RedissonFair,
    Foreign::Redsync(Retry::Tuned),
    Foreign::Redislock(Retry::Tuned),
];

pub fn peers(bench: &mut Bench) {
    let languages: Vec<Language> = [Language::Java, Language::Go]
        .into_iter()
        .filter(|language| is_built(*language))
        .collect();
    if languages.is_empty() {
        return;
    }
    let beside = |own: &[ContenderKind], foreign: &[Foreign]| {
        let built = foreign
            .iter()
            .filter(|foreign| languages.contains(&foreign.language()));
        let built = built.map(|foreign| ContenderKind::Foreign(*foreign));
        own.iter().copied().chain(built).collect::<Vec<_>>()
    };
    uncontended(
        bench,
        &beside(&[ContenderKind::Raw, ContenderKind::Ours], &ALONE),
    );
    let waiting = [&TUNED[..], &[Foreign::Redsync(Retry::Default)]].concat();
    contended(bench, &beside(&[ContenderKind::Ours], &waiting));
    passed(bench, &beside(&[ContenderKind::Ours], &TUNED));
}

fn is_built(language: Language) -> bool {
    let names = ALONE
        .iter()
        .filter(|foreign| foreign.language() == language)
        .map(|foreign| foreign.parts().0);
    match language.build() {
        Ok(()) => true,
        Err(why) => {
            println!("skipped {}: {why}", names.collect::<Vec<_>>().join(", "));
            false
        }
    }
}

fn uncontended(bench: &mut Bench, contenders: &[ContenderKind]) {
    for core in [Some(0), None] {
        let cores = core.map_or("any core", |_| "one core");
        let title = format!("1 task, other languages, {cores}");
        let size = Size {
            core,
            ..Size::processes(1)
        };
        // Longer turns than those of the Rust contenders: a JVM takes longer to resume its full speed.
        let scores = one_at_a_time(bench, contenders, size, bench.time);
        round::print(&title, &scores);
        let (peer, ratio) = worst(&scores, Turn::p50, f64::max);
        bench.report.target(
            &format!("uncontended, {title}"),
            format!("{ratio:.3} × {peer}"),
            "≤ 1.00 × any peer",
            ratio <= 1.0,
        );
    }
}

/// Every waiter holds the lock several times, so that most holds have all the others waiting.
fn contended(bench: &mut Bench, contenders: &[ContenderKind]) {
    const TIMES: u64 = 5;
    let plan = Plan {
        until: Until::Locks(TIMES),
        ..Plan::line(WAITERS, BODY)
    };
    for processes in [1, 4] {
        let work = format!("{WAITERS} waiters × {TIMES} × 5 ms in {processes} process(es)");
        let scores = line::measure(bench, &work, contenders, processes, plan);
        let (peer, ratio) = worst(&scores, Turn::rate, f64::min);
        bench.report.target(
            &format!("{work}, other languages, holds/s"),
            format!("{ratio:.2} × {peer}"),
            "≥ 1.0 × the best peer",
            ratio >= 1.0,
        );
        let (peer, ratio) = worst(&scores, longest, f64::max);
        bench.report.target(
            &format!("{work}, other languages, longest wait"),
            format!("{ratio:.2} × {peer}"),
            "≤ 1.0 × any peer",
            ratio <= 1.0,
        );
    }
}

/// Returns the ratio to the best peer.
fn worst(
    scores: &[Score],
    value: impl Fn(&Turn) -> f64 + Copy,
    worse: impl Fn(f64, f64) -> f64,
) -> (ContenderKind, f64) {
    against_peers(round::of(scores, ContenderKind::Ours), scores, value, worse)
}

fn passed(bench: &mut Bench, contenders: &[ContenderKind]) {
    let url = bench.server.url();
    let pair = |contender: &ContenderKind| Pair::start(*contender, &url);
    let mut pairs: Vec<Pair> = contenders.iter().map(pair).collect();
    for _ in 0..bench.rounds(9) {
        for pair in &mut pairs {
            // A process that retries must have begun to before the other one releases.
            pair.pass(20, 7 * REST);
        }
    }
    let rows: Vec<_> = pairs.into_iter().map(Pair::results).collect();
    let ratios = handoff::print(&rows, &rows[0].0);
    let peers = rows.iter().zip(ratios).skip(1);
    let ((peer, _), ratio) = peers
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .expect("there are peers");
    bench.report.target(
        "release in one process → body starts in another, other languages",
        format!("{:.2} × {peer}", 1.0 / ratio),
        "≤ 1.0 × any peer",
        ratio >= 1.0,
    );
}
