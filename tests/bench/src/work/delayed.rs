//! Locks over a network: every round trip takes longer.

use crate::Bench;
use crate::contenders::{ContenderKind, FREE};
use crate::delay::Delay;
use crate::load::Plan;
use crate::process_group::Size;
use crate::round::{self, Turn};
use crate::runtime::Flavor;
use std::time::Duration;

pub fn delayed(bench: &mut Bench) {
    for micros in [300, 1000] {
        let round_trip = Duration::from_micros(micros);
        let delay = Delay::start(bench.server.port(), round_trip);
        for flavor in [Flavor::Current, Flavor::Threads] {
            for tasks in [1, 64] {
                let plan = Plan::free(tasks, bench.time);
                let size = Size {
                    flavor,
                    ..Size::processes(1)
                };
                let contenders = FREE.map(|contender| (contender, size, plan));
                let rounds = bench.rounds(7);
                let scores = round::run_at(&delay.url(), &bench.server, &contenders, rounds);
                let title = format!("{tasks} tasks, {flavor}, {round_trip:?} of delay");
                round::print(&title, &scores);
                let raw = round::of(&scores, ContenderKind::Raw);
                let ratio = round::of(&scores, ContenderKind::Ours).ratio(raw, Turn::rate);
                bench.report.target(
                    &format!("{title}, locks/s"),
                    format!("{ratio:.2} × raw"),
                    "≥ 1.0 × raw",
                    ratio >= 1.0,
                );
            }
        }
    }
}
