//! One more reader beside many: the time of the server.

use crate::Bench;
use crate::contenders::TTL;
use crate::numbers::{median, micros};
use crate::process;
use crate::report::Table;
use crate::runtime::Flavor;
use crate::server::Server;
use lock_runtime::{Lock, LockGuard, LockManager};
use std::time::Duration;

const BESIDE: [usize; 5] = [0, 1, 10, 100, 1000];
/// The locks of each turn.
const KEYS: usize = 50;
/// Longer than the benchmark: nothing is renewed.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// The microseconds of one acquisition: of the command, and of the server's process.
#[derive(Clone, Copy)]
struct Cost {
    command: f64,
    cpu: f64,
}

pub fn readers(bench: &mut Bench) {
    let runtime = Flavor::Threads.build();
    let rounds = bench.rounds(45);
    let (exclusive, read) = runtime.block_on(measure(&bench.server, rounds));
    let columns = ["command µs", "/ exclusive", "server µs", "/ exclusive"];
    let mut table = Table::new("acquire once, beside so many holders", &columns);
    let ratio = |costs: &[Cost], beside: &[Cost], of: fn(&Cost) -> f64| {
        median(costs.iter().zip(beside).map(|(one, two)| of(one) / of(two)))
    };
    let (command, cpu) = (|cost: &Cost| cost.command, |cost: &Cost| cost.cpu);
    let mut row = |name: &str, costs: &[Cost]| {
        let cells = vec![
            format!("{:.1}", median(costs.iter().map(command))),
            format!("{:.2}", ratio(costs, &exclusive, command)),
            format!("{:.1}", median(costs.iter().map(cpu))),
            format!("{:.2}", ratio(costs, &exclusive, cpu)),
        ];
        table.row(name, cells);
    };
    row("exclusive", &exclusive);
    for (beside, costs) in BESIDE.iter().zip(&read) {
        row(&format!("read beside {beside}"), costs);
    }
    println!();
    table.print();
    let (one, most) = (&read[1], &read[BESIDE.len() - 1]);
    let off = (ratio(most, one, command) - 1.0) * 100.0;
    bench.report.target(
        "read beside 1,000 readers, the server's time of the command",
        format!("{off:+.0} % of that beside 1"),
        "flat ±20 %",
        off.abs() <= 20.0,
    );
    // An uncontended exclusive lock needs no script, so the commands compare with that of a reader alone.
    let sides = [
        (
            "CPU of the server",
            ratio(most, &exclusive, cpu),
            "exclusive",
        ),
        (
            "its time of the command",
            ratio(most, &read[0], command),
            "read beside 0",
        ),
    ];
    for (side, times, of) in sides {
        bench.report.target(
            &format!("read beside 1,000 readers, {side}"),
            format!("{times:.2} × {of}"),
            &format!("≤ 6 × {of}"),
            times <= 6.0,
        );
    }
    bench.server.clear();
}

/// Returns the costs of each round: of exclusive locks, and of readers beside each number of others.
async fn measure(server: &Server, rounds: usize) -> (Vec<Cost>, Vec<Vec<Cost>>) {
    let connect = || LockManager::connect(server.url());
    let (others, ours) = (connect().await.unwrap(), connect().await.unwrap());
    let key = |beside: usize, number: usize| format!("beside-{beside}-{number}");
    let mut held = Vec::new();
    for beside in BESIDE {
        for _ in 0..beside {
            // With a `max_hold` of its own, a reader joins no other one of its process.
            let lock = |number| others.lock(key(beside, number)).read().max_hold(LONG);
            held.extend(acquire((0..KEYS).map(|number| lock(number).ttl(LONG))).await);
        }
    }
    let (mut exclusive, mut read) = (Vec::new(), vec![Vec::new(); BESIDE.len()]);
    // The first round loads the scripts.
    for round in 0..=rounds {
        let locks = (0..KEYS).map(|number| ours.lock(format!("alone-{number}")));
        let cost = cost(server, "set", locks).await;
        if round > 0 {
            exclusive.push(cost);
        }
        for (at, beside) in BESIDE.into_iter().enumerate() {
            let locks = (0..KEYS).map(|number| ours.lock(key(beside, number)).read());
            let cost = self::cost(server, "evalsha", locks).await;
            if round > 0 {
                read[at].push(cost);
            }
        }
    }
    drop(held);
    others.shutdown().await;
    (exclusive, read)
}

/// Acquires the locks, and releases them. Returns the cost of each acquisition.
async fn cost(server: &Server, command: &str, locks: impl Iterator<Item = Lock>) -> Cost {
    let (time, cpu) = (server.time_of(command), process::cpu(server.id()));
    let mut guards = Vec::with_capacity(KEYS);
    for lock in locks {
        // One after the other: many at a time share a request.
        guards.push(lock.ttl(TTL).acquire().await.unwrap());
    }
    let cpu = process::cpu(server.id()) - cpu;
    let time = server.time_of(command) - time;
    for guard in guards {
        guard.release().await.unwrap();
    }
    let each = |time| micros(time) / KEYS as f64;
    Cost {
        command: each(time),
        cpu: each(cpu),
    }
}

/// Acquires the locks at the same time.
async fn acquire(locks: impl Iterator<Item = Lock>) -> Vec<LockGuard> {
    let acquires: Vec<_> = locks.map(|lock| tokio::spawn(lock.acquire())).collect();
    let mut guards = Vec::with_capacity(acquires.len());
    for acquire in acquires {
        guards.push(acquire.await.unwrap().unwrap());
    }
    guards
}
