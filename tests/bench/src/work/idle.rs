//! Many waiters behind a holder that keeps the lock: the cost of waiting.

use crate::Bench;
use crate::contenders::ContenderKind;
use crate::load::Plan;
use crate::monitor::Monitor;
use crate::process_group::{ProcessGroup, Size};
use crate::report::Table;
use std::thread::sleep;
use std::time::{Duration, Instant};

const WAITERS: usize = 1000;

pub fn idle(bench: &mut Bench) {
    let time = Duration::from_secs(if bench.quick { 5 } else { 30 });
    let columns = [
        "sent / waiter / 5 s",
        "all / waiter / 5 s",
        "server %",
        "client %",
    ];
    let title = format!("{WAITERS} waiters, idle for {time:?}");
    let mut table = Table::new(&title, &columns);
    for (name, clients, tasks) in [
        ("1 process", 1, WAITERS),
        ("each as a process of its own", WAITERS, 1),
    ] {
        let url = bench.server.url();
        let size = Size {
            clients,
            ..Size::processes(1)
        };
        let settle = Duration::from_secs(if bench.quick { 2 } else { 8 });
        let plan = Plan::contended(tasks, time * 3).fresh();
        let mut holder = ProcessGroup::start(ContenderKind::Ours, Size::processes(1), &url);
        let mut waiters = ProcessGroup::start(ContenderKind::Ours, size, &url);
        let long = Plan {
            tasks: 1,
            body: time * 4,
            ..plan
        };
        holder.begin(long);
        sleep(Duration::from_millis(300));
        waiters.begin(plan);
        // Entering the queue is not part of waiting in it.
        sleep(settle);
        let monitor = Monitor::start(&bench.server);
        sleep(time / 3);
        let counts = monitor.stop();
        let (start, server, client) = (Instant::now(), bench.server.usage(), waiters.cpu());
        // Over whole polling intervals, so that the start of each wait does not matter.
        sleep(time * 4 / 5);
        let elapsed = start.elapsed().as_secs_f64();
        let server = (bench.server.usage() - server).cpu.as_secs_f64() / elapsed * 100.0;
        let client = (waiters.cpu() - client).as_secs_f64() / elapsed * 100.0;
        let share = WAITERS as f64 * (time / 3).as_secs_f64() / 5.0;
        let (sent, within) = (counts.sent as f64 / share, counts.within as f64 / share);
        let cells = vec![
            format!("{sent:.3}"),
            format!("{:.3}", sent + within),
            format!("{server:.2}"),
            format!("{client:.2}"),
        ];
        table.row(name, cells);
        bench.report.target(
            &format!("{WAITERS} idle waiters, {name}: commands"),
            format!("{sent:.3} per waiter per 5 s"),
            "< 1",
            sent < 1.0,
        );
        bench.report.target(
            &format!("{WAITERS} idle waiters, {name}: CPU"),
            format!("server {server:.2} %, client {client:.2} % of a core"),
            "< 2 %",
            server + client < 2.0,
        );
        drop((holder, waiters));
        bench.server.clear();
    }
    println!();
    table.print();
}
