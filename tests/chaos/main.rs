//! Injects faults while processes compete for locks, and checks the recorded history.

mod args;
mod book;
mod calls;
mod campaign;
mod checker;
mod clock;
mod crew;
mod event;
mod explore;
mod fault;
mod ground;
mod history;
mod keep;
mod left;
mod nemesis;
mod order;
mod owner;
mod panics;
mod plan;
mod report;
mod rows;
mod scene;
mod schedule;
mod seeded;
#[path = "../support/mod.rs"]
mod support;
mod tally;
mod timeline;
mod witness;
mod worker;

use std::process::ExitCode;

use args::{Args, leave};

fn main() -> ExitCode {
    let args = Args::parse(std::env::args().skip(1));
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    match words[..] {
        [] => explore::run(&args),
        ["row", ref rows @ ..] => rows::run(&args, rows),
        ["worker", order] => {
            worker::work(order);
            ExitCode::SUCCESS
        }
        ["seeded", ref classes @ ..] => seeded::run(classes),
        ["provoke", scene, seconds] => {
            seeded::provoke(scene, seconds);
            ExitCode::SUCCESS
        }
        _ => leave(&format!("`{}` is not a command", words.join(" "))),
    }
}
