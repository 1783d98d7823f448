//! Many who want one lock all the time, and have nothing to do with it: how often it passes on.

use crate::Bench;
use crate::contenders::{Retry, Who};
use crate::load::Plan;
use crate::round::{self, Turn};
use crate::runtime::Flavor;

const ALL: [Who; 6] = [
    Who::Raw,
    Who::Ours,
    Who::Rslock(Retry::Tuned),
    Who::Rlock(Retry::Tuned),
    Who::AsyncRedisLock(Retry::Tuned),
    Who::Distkit(Retry::Tuned),
];

pub fn contended(bench: &mut Bench) {
    for (processes, least) in [(1, 20.0), (4, 3.0)] {
        // Raw commands can't wait: the least that a lock costs is what one alone gets.
        let time = bench.time * 2;
        let plan = move |who| match who {
            Who::Raw => Plan::free(1, time),
            _ => Plan::contended(64, time),
        };
        let rounds = bench.rounds(7);
        let scores = round::run(bench, Flavor::Threads, &ALL, processes, plan, rounds);
        let tasks = 64 / processes;
        round::print(
            &format!("{processes} process(es) × {tasks} tasks, one key (raw: alone)"),
            &scores,
        );
        let raw = round::of(&scores, Who::Raw);
        let ratio = round::of(&scores, Who::Ours).ratio(raw, Turn::rate);
        bench.report.target(
            &format!("{processes} process(es) × {tasks} tasks, empty body, one key, locks/s"),
            format!("{ratio:.2} × raw"),
            &format!("≥ {least:.0} × raw"),
            ratio >= least,
        );
    }
}
