//! Random schedules, mixed with scenes.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::BuildHasher;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::args::{Args, leave};
use crate::deployment::Topology;
use crate::report::Report;
use crate::scene::{self, Scene};
use crate::schedule::Schedule;
use crate::soak::{self, Next};
use crate::trace;

/// The number of random schedules for each scene.
const EACH: u64 = 2;

pub fn run(args: &Args) -> ExitCode {
    let topologies = match args.on.is_empty() {
        true => &Topology::OF_REDIS[..],
        false => &args.on,
    };
    let start = Instant::now();
    let time = Duration::from_secs_f64(args.minutes * 60.0);
    let goes_on = |number, _: &Report| match (args.seed, args.schedules) {
        (Some(_), _) => number < 1,
        (None, Some(most)) => number < most,
        (None, None) => start.elapsed() < time,
    };
    let scenes = scenes(args);
    let chance = RandomState::new();
    let next = |number: u64| {
        let seed = args.seed.unwrap_or_else(|| chance.hash_one(number) >> 16);
        // Scenes take turns, beginning with a random one.
        let turn = number / (1 + EACH) + (chance.hash_one("scene") >> 16);
        let is_scene = !args.scenes.is_empty() || number % (1 + EACH) == EACH;
        if is_scene && !scenes.is_empty() {
            let turn = if args.scenes.is_empty() { turn } else { number };
            let scene = one_of(&scenes, turn).expect("there is one");
            return Next::Scene(scene, one_of(&args.on, number / scenes.len() as u64), seed);
        }
        let topology = one_of(topologies, number).expect("there is one");
        Next::Schedule(Box::new(Schedule::of(topology, seed)))
    };
    let (mut most, mut liveliest) = (0, None);
    let report = soak::run(args.lanes, goes_on, next, |played, verdict| {
        let events = played.history.faults.len() * verdict.holds;
        if args.trace.is_some() && events > most {
            (most, liveliest) = (events, Some(trace::of(&played.history)));
        }
    });
    println!("\n{report}");
    if let (Some(path), Some(trace)) = (&args.trace, liveliest) {
        fs::write(path, trace).unwrap();
    }
    if let Some(path) = &args.report {
        fs::write(path, report.to_string()).unwrap();
    }
    ExitCode::from(u8::from(report.violations() > 0))
}

/// Returns the named scenes. Without names, returns all scenes if neither a topology nor a seed is given.
fn scenes(args: &Args) -> Vec<&'static Scene> {
    let named = |name: &String| {
        Scene::named(name).unwrap_or_else(|| leave(&format!("unknown scene `{name}`")))
    };
    match (
        args.scenes.is_empty(),
        args.on.is_empty() && args.seed.is_none(),
    ) {
        (false, _) => args.scenes.iter().map(named).collect(),
        (true, true) => {
            let of_redis = |scene: &&Scene| Topology::OF_REDIS.contains(&scene.topology());
            scene::ALL.iter().filter(of_redis).collect()
        }
        (true, false) => Vec::new(),
    }
}

fn one_of<T: Copy>(all: &[T], number: u64) -> Option<T> {
    let number = number.checked_rem(all.len() as u64)?;
    all.get(number as usize).copied()
}
