//! Injects faults while processes compete for locks, and checks the recorded history.

mod args;
mod artifacts;
mod calls;
mod checker;
mod clock;
mod deployment;
mod fault;
mod history;
mod instructions;
mod journal;
mod leaks;
mod nemesis;
mod panics;
mod plan;
mod random;
mod report;
mod resource;
mod revocation;
mod revoker;
mod rows;
mod scene;
mod schedule;
mod seeded;
mod soak;
mod source;
mod tally;
mod trace;
mod witness;
mod worker;
mod worker_pool;

use std::process::ExitCode;

use args::{Args, leave};

fn main() -> ExitCode {
    let args = Args::parse(std::env::args().skip(1));
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    match words[..] {
        [] => random::run(&args),
        ["row", ref rows @ ..] => rows::run(&args, rows),
        ["worker", order] => {
            worker::work(order);
            ExitCode::SUCCESS
        }
        ["seeded", ref rules @ ..] if args.compile => seeded::compile(rules),
        ["seeded", ref rules @ ..] => seeded::run(rules, &args.on),
        ["provoke", scene, seconds] => {
            seeded::provoke(scene, args.on.first().copied(), seconds);
            ExitCode::SUCCESS
        }
        _ => leave(&format!("`{}` is not a command", words.join(" "))),
    }
}
