//! Makes everything go wrong that can, and looks at what came of it.
#![allow(dead_code, reason = "in the making")]

mod book;
mod calls;
mod checker;
mod clock;
mod command;
mod crew;
mod event;
mod fault;
mod ground;
mod history;
mod left;
mod nemesis;
mod plan;
mod schedule;
#[path = "../support/mod.rs"]
mod support;
mod worker;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["worker", order] = words[..] {
        worker::work(order);
    }
}
