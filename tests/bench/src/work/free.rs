//! Locks that nobody else wants.

use crate::Bench;
use crate::contenders::{FREE, Who};
use crate::load::Plan;
use crate::round::{self, Score, Turn};
use crate::runtime::Flavor;

/// One at a time: what a lock costs a caller.
pub fn alone(bench: &mut Bench) {
    for flavor in [Flavor::Threads, Flavor::Current] {
        let scores = take_turns(bench, flavor, 1, bench.rounds(15));
        round::print(&format!("1 task, {flavor}"), &scores);
        let raw = round::of(&scores, Who::Raw);
        let ours = round::of(&scores, Who::Ours);
        let ratio = ours.ratio(raw, Turn::p50);
        bench.report.target(
            &format!("uncontended, 1 task, {flavor}"),
            format!("{ratio:.3} × raw"),
            "≤ 1.10 × raw",
            ratio <= 1.10,
        );
        let (peer, ratio) = against_peers(ours, &scores, Turn::p50, f64::max);
        bench.report.target(
            &format!("uncontended, 1 task, {flavor}, beside the fastest peer"),
            format!("{ratio:.3} × {peer}"),
            "≤ 1.00 × any peer",
            ratio <= 1.0,
        );
    }
}

/// Many at a time: how many locks are had.
pub fn many(bench: &mut Bench) {
    for tasks in [64, 1024] {
        let scores = take_turns(bench, Flavor::Threads, tasks, bench.rounds(9));
        round::print(&format!("{tasks} tasks, distinct keys"), &scores);
        let raw = round::of(&scores, Who::Raw);
        let ours = round::of(&scores, Who::Ours);
        let ratio = ours.ratio(raw, Turn::rate);
        bench.report.target(
            &format!("{tasks} tasks, distinct keys, locks/s"),
            format!("{ratio:.2} × raw"),
            "≥ 1.0 × raw",
            ratio >= 1.0,
        );
        let (peer, ratio) = against_peers(ours, &scores, Turn::rate, f64::min);
        bench.report.target(
            &format!("{tasks} tasks, distinct keys, locks/s beside the best peer"),
            format!("{ratio:.2} × {peer}"),
            "≥ 1.3 × the best peer",
            ratio >= 1.3,
        );
    }
}

/// The ratio to the peer that is hardest to beat: the worst one for us.
fn against_peers(
    ours: &Score,
    scores: &[Score],
    value: impl Fn(&Turn) -> f64 + Copy,
    worse: impl Fn(f64, f64) -> f64,
) -> (Who, f64) {
    let peers = scores.iter().filter(|score| score.who.is_peer());
    let ratios = peers.map(|peer| (peer.who, ours.ratio(peer, value)));
    ratios
        .reduce(|a, b| if worse(a.1, b.1) == a.1 { a } else { b })
        .expect("there are peers")
}

fn take_turns(bench: &Bench, flavor: Flavor, tasks: usize, rounds: usize) -> Vec<Score> {
    let plan = Plan::free(tasks, bench.time);
    round::run(bench, flavor, &FREE, 1, move |_| plan, rounds)
}
