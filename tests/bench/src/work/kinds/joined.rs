//! Many readers of one process want one lock all the time, with empty bodies: how often they join its hold.

use crate::Bench;
use crate::contenders::ContenderKind;
use crate::load::Plan;
use crate::process_group::Size;
use crate::round::{self, Turn};

const READERS: usize = 64;

pub fn joined(bench: &mut Bench) {
    let time = bench.time * 2;
    let (one, many) = (Plan::free(1, time), Plan::contended(READERS, time));
    let contenders = [
        (ContenderKind::Raw, Size::processes(1), one),
        (ContenderKind::Read, Size::processes(1), many),
        (ContenderKind::Ours, Size::processes(1), many),
    ];
    let scores = round::run(&bench.server, &contenders, bench.rounds(7));
    round::print(
        &format!("{READERS} tasks, one key, one process (raw: one task)"),
        &scores,
    );
    let raw = round::of(&scores, ContenderKind::Raw);
    let ratio = round::of(&scores, ContenderKind::Read).ratio(raw, Turn::rate);
    bench.report.target(
        &format!("{READERS} readers of one key in one process, empty body, locks/s"),
        format!("{ratio:.1} × raw"),
        "≥ 20 × raw",
        ratio >= 20.0,
    );
}
