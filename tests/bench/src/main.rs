//! Measures the lock beside others. How to run it, and how to read it: see `Cargo.toml`.

mod contenders;
mod server;
mod table;
mod workload;

use server::Server;
use std::process::exit;
use std::time::Duration;

const HELP: &str = "\
Measures acquire + release beside other locks, on a redis-server of its own.

Usage: lock-bench [options]

Options:
  --rounds <number>    how often each contender has its turn [default: 9]
  --millis <number>    how long a turn is [default: 500]
  --help               prints this";

/// Two threads, as on a small server; the loops are tasks on them, as handlers are.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let (rounds, time) = options();
    let server = Server::start();
    let contenders = contenders::all(&server.url()).await;
    let names: Vec<&str> = contenders
        .iter()
        .map(|contender| contender.name())
        .collect();
    let version = server.version().expect("the server answers");
    println!("redis-server {version}, medians of {rounds} rounds of {time:?}");

    for workload in workload::ALL {
        let mut samples = vec![Vec::new(); contenders.len()];
        for round in 0..rounds {
            for turn in 0..contenders.len() {
                // Nobody always has the turn after the same other one.
                let next = (round + turn) % contenders.len();
                samples[next].push(contenders[next].run(workload, time).await);
            }
        }
        table::print(workload, &names, &samples);
        let left = server.keys().expect("the server answers");
        assert_eq!(left, 0, "locks were left behind");
    }
}

fn options() -> (usize, Duration) {
    let (mut rounds, mut millis) = (9, 500);
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        let value = || arguments.next()?.parse().ok().filter(|value| *value > 0);
        match (option.as_str(), value) {
            ("--help" | "-h", _) => {
                println!("{HELP}");
                exit(0);
            }
            ("--rounds", mut value) => rounds = value().unwrap_or_else(|| complain(&option)),
            ("--millis", mut value) => millis = value().unwrap_or_else(|| complain(&option)),
            _ => {
                eprintln!("`{option}` is not known\n\n{HELP}");
                exit(2);
            }
        }
    }
    (rounds, Duration::from_millis(millis as u64))
}

fn complain(option: &str) -> usize {
    eprintln!("`{option}` needs a whole number greater than zero");
    exit(2);
}
