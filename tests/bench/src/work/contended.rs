//! Many tasks want one lock all the time, with empty bodies: how often it is passed on.

use crate::Bench;
use crate::contenders::{Retry, Who};
use crate::crew::Size;
use crate::load::Plan;
use crate::round::{self, Turn};

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
        let time = bench.time * 2;
        let who = ALL.map(|who| match who {
            // Raw commands cannot wait: this is the rate of a single task.
            Who::Raw => (who, Size::processes(1), Plan::free(1, time)),
            _ => (who, Size::processes(processes), Plan::contended(64, time)),
        });
        let scores = round::run(&bench.server, &who, bench.rounds(7));
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
