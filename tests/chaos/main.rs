//! Makes everything go wrong that can, and looks at what came of it.
#![allow(dead_code, reason = "in the making")]

mod args;
mod book;
mod calls;
mod campaign;
mod checker;
mod clock;
mod command;
mod crew;
mod event;
mod fault;
mod ground;
mod history;
mod keep;
mod left;
mod nemesis;
mod plan;
mod report;
mod schedule;
mod seeded;
#[path = "../support/mod.rs"]
mod support;
mod worker;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::process::ExitCode;
use std::time::Duration;

use args::{Args, leave};
use campaign::Until;
use ground::Place;
use schedule::Schedule;

fn main() -> ExitCode {
    let args = Args::parse(std::env::args().skip(1));
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    match words[..] {
        [] => explore(&args),
        ["worker", order] => {
            worker::work(order);
            ExitCode::SUCCESS
        }
        ["seeded", ref classes @ ..] => seeded::run(classes),
        ["provoke", class, seconds] => {
            seeded::provoke(class, seconds);
            ExitCode::SUCCESS
        }
        _ => leave(&format!("`{}` is not known", words.join(" "))),
    }
}

/// Schedules as chance has them.
fn explore(args: &Args) -> ExitCode {
    let places = places(&args.on);
    let until = match (args.seed, args.schedules) {
        (Some(_), _) => Until::Schedules(1),
        (None, Some(most)) => Until::Schedules(most),
        (None, None) => Until::Time(Duration::from_secs_f64(args.minutes * 60.0)),
    };
    let chance = RandomState::new();
    let next = |number: u64| {
        let place = places[(number % places.len() as u64) as usize];
        let seed = args.seed.unwrap_or_else(|| chance.hash_one(number) >> 16);
        Schedule::of(place, seed)
    };
    let mut failed = false;
    campaign::run(until, args.lanes, next, |played, verdict| {
        println!(
            "{} ({}), seed {}, {:?}: {} holds, {} hand-offs, {} faults, {} violations",
            played.place.name(),
            played.variant,
            played.seed,
            played.took,
            verdict.holds,
            verdict.hand_offs,
            played.history.faults.len(),
            verdict.violations.len(),
        );
        for violation in &verdict.violations {
            println!("  {violation}");
            failed = true;
        }
        if !verdict.violations.is_empty() {
            println!("  see {}", keep::keep(&played, &verdict).display());
        }
    });
    match failed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

fn places(names: &[String]) -> Vec<Place> {
    let place = |name: &String| {
        let mut all = Place::ALL.into_iter();
        let place = all.find(|place| place.name() == name);
        place.unwrap_or_else(|| leave(&format!("`{name}` is no place")))
    };
    match names.is_empty() {
        true => Place::ALL.to_vec(),
        false => names.iter().map(place).collect(),
    }
}
