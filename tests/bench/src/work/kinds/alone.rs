//! An uncontended lock for reading, or with permits, beside an exclusive one.

use crate::Bench;
use crate::contenders::ContenderKind;
use crate::process_group::Size;
use crate::round::{self, Turn};
use crate::work::free;

const ALL: [ContenderKind; 4] = [
    ContenderKind::Ours,
    ContenderKind::Read,
    ContenderKind::Permits,
    ContenderKind::Raw,
];

pub fn alone(bench: &mut Bench) {
    for core in [Some(0), None] {
        let cores = core.map_or("any core", |_| "one core");
        let size = Size {
            core,
            ..Size::processes(1)
        };
        let scores = free::one_at_a_time(bench, &ALL, size, bench.time / 4);
        round::print(&format!("shared locks, 1 task, {cores}"), &scores);
        let exclusive = round::of(&scores, ContenderKind::Ours);
        for (name, kind) in [
            ("read", ContenderKind::Read),
            ("permit", ContenderKind::Permits),
        ] {
            let ratio = round::of(&scores, kind).ratio(exclusive, Turn::p50);
            bench.report.target(
                &format!("uncontended {name}, 1 task, {cores}"),
                format!("{ratio:.3} × exclusive"),
                "≤ 1.15 × exclusive",
                ratio <= 1.15,
            );
        }
    }
}
