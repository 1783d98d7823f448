//! Very many shared locks held at the same time by one process: the cost of their renewal.

use crate::Bench;
use crate::child::Child;
use crate::contenders::TTL;
use crate::process;
use crate::report::Table;
use crate::work::held;

pub fn renewal(bench: &mut Bench) {
    let url = bench.server.url();
    let count: u64 = if bench.quick { 10_000 } else { 100_000 };
    let seconds = if bench.quick { 3 } else { 24 };
    let title = format!("{count} holds, ttl {TTL:?}, over {seconds} s");
    let mut table = Table::new(&title, &["client %", "server %"]);
    let mut shares = Vec::new();
    for (name, order) in [
        ("exclusive", "hold"),
        ("readers, a key each", "hold-read"),
        ("permits, two on a key", "hold-pairs"),
    ] {
        let mut child = Child::start(held::KIND, &[&url]);
        child.ask(&format!("{order} {count}"));
        let server = process::cpu(bench.server.id());
        let client = held::renewal(&child, seconds);
        let server = (process::cpu(bench.server.id()) - server).as_secs_f64();
        let server = server / seconds as f64 * 100.0;
        table.row(name, vec![format!("{client:.2}"), format!("{server:.2}")]);
        shares.push((name, client));
        drop(child);
        bench.server.clear();
    }
    println!();
    table.print();
    for (name, share) in &shares[1..] {
        bench.report.target(
            &format!("{count} shared holds, {name}: renewal in our process"),
            format!("{share:.2} % of a core"),
            "< 6 % of a core",
            *share < 6.0,
        );
    }
}
