//! Many tasks want one lock all the time, with empty bodies: how often it is passed on.

use crate::Bench;
use crate::contenders::{ContenderKind, Retry};
use crate::load::Plan;
use crate::process_group::Size;
use crate::round::{self, Turn};

const ALL: [ContenderKind; 6] = [
    ContenderKind::Raw,
    ContenderKind::Ours,
    ContenderKind::Rslock(Retry::Tuned),
    ContenderKind::Rlock(Retry::Tuned),
    ContenderKind::AsyncRedisLock(Retry::Tuned),
    ContenderKind::Distkit(Retry::Tuned),
];

pub fn contended(bench: &mut Bench) {
    for (processes, least) in [(1, 20.0), (4, 3.0)] {
        let time = bench.time * 2;
        let contender = ALL.map(|contender| match contender {
            // Raw commands cannot wait: this is the rate of a single task.
            ContenderKind::Raw => (contender, Size::processes(1), Plan::free(1, time)),
            _ => (
                contender,
                Size::processes(processes),
                Plan::contended(64, time),
            ),
        });
        let scores = round::run(&bench.server, &contender, bench.rounds(7));
        let tasks = 64 / processes;
        round::print(
            &format!("{processes} process(es) × {tasks} tasks, one key (raw: alone)"),
            &scores,
        );
        let raw = round::of(&scores, ContenderKind::Raw);
        let ratio = round::of(&scores, ContenderKind::Ours).ratio(raw, Turn::rate);
        bench.report.target(
            &format!("{processes} process(es) × {tasks} tasks, empty body, one key, locks/s"),
            format!("{ratio:.2} × raw"),
            &format!("≥ {least:.0} × raw"),
            ratio >= least,
        );
    }
}
