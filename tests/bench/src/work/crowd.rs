//! Many processes want one lock: the work of the server for each time that it is passed on.

use crate::Bench;
use crate::contenders::ContenderKind;
use crate::load::{Plan, Until};
use crate::monitor::Monitor;
use crate::process_group::{ProcessGroup, Size};
use crate::report::Table;
use std::time::Duration;

pub fn crowd(bench: &mut Bench) {
    let url = bench.server.url();
    let columns = [
        "sent",
        "within scripts",
        "all",
        "server µs",
        "sent, each once",
    ];
    let mut table = Table::new("commands per hand-off; waiting clients", &columns);
    let mut sent = Vec::new();
    for clients in [8, 32, 128, 512] {
        // Clients that share nothing behave like processes.
        let size = Size {
            clients,
            ..Size::processes(1)
        };
        let mut group = ProcessGroup::start(ContenderKind::Ours, size, &url);
        let again = Plan::contended(1, bench.time * 10);
        let once = Plan {
            until: Until::Locks(1),
            ..again
        };
        group.follow(once.fresh());
        let monitor = Monitor::start(&bench.server);
        let locks = group.follow(again.fresh())[0].locks() as f64;
        let all_along = monitor.stop();
        let monitor = Monitor::start(&bench.server);
        let line = group.follow(
            Plan {
                body: Duration::from_millis(1),
                ..once
            }
            .fresh(),
        );
        let in_line = monitor.stop().sent as f64 / line[0].locks() as f64;
        let before = bench.server.usage();
        let undisturbed = group.follow(again.fresh())[0].locks() as f64;
        let cpu = (bench.server.usage() - before).cpu;
        let (own, within) = (
            all_along.sent as f64 / locks,
            all_along.within as f64 / locks,
        );
        let cells = vec![
            format!("{own:.2}"),
            format!("{within:.2}"),
            format!("{:.2}", own + within),
            format!("{:.1}", cpu.as_secs_f64() * 1e6 / undisturbed),
            format!("{in_line:.2}"),
        ];
        table.row(&clients.to_string(), cells);
        sent.push(own);
    }
    println!();
    table.print();
    let most = sent.iter().copied().fold(0.0, f64::max);
    let least = sent.iter().copied().fold(f64::MAX, f64::min);
    bench.report.target(
        "server commands per cross-process hand-off, 8 to 512 waiters",
        format!("{least:.2} to {most:.2}"),
        "≤ 2.5",
        most <= 2.5,
    );
    let middle = (most + least) / 2.0;
    let off = (most - middle) / middle * 100.0;
    bench.report.target(
        "the same, from 8 to 512 waiters",
        format!("±{off:.0} %"),
        "flat ±10 %",
        off <= 10.0,
    );
}
