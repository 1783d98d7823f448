//! Runs many schedules, a few at a time.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use crate::artifacts::keep;
use crate::checker::{Verdict, check};
use crate::deployment::Topology;
use crate::report::Report;
use crate::scene::Scene;
use crate::schedule::{RunResult, Schedule};

/// The next schedule to play.
pub enum Next {
    Schedule(Box<Schedule>),
    /// A scene with its topology, if it is another one, and its seed.
    Scene(&'static Scene, Option<Topology>, u64),
}

impl Next {
    fn play(&self) -> RunResult {
        match self {
            Self::Schedule(schedule) => schedule.play(),
            Self::Scene(scene, on, seed) => scene.play(*on, *seed),
        }
    }

    fn name(&self) -> (&'static str, u64) {
        match self {
            Self::Schedule(schedule) => (schedule.topology.name(), schedule.seed),
            Self::Scene(scene, _, seed) => (scene.name, *seed),
        }
    }
}

/// Plays the schedules that `next` returns while `goes_on` returns `true`, and passes each result to `also`.
pub fn run(
    lanes: usize,
    goes_on: impl Fn(u64, &Report) -> bool + Sync,
    next: impl Fn(u64) -> Next + Sync,
    also: impl FnMut(&RunResult, &Verdict) + Send,
) -> Report {
    let count = AtomicU64::new(0);
    let seen = Mutex::new((Report::default(), also));
    let lane = || {
        loop {
            let number = count.fetch_add(1, Relaxed);
            if !goes_on(number, &seen.lock().unwrap().0) {
                return;
            }
            let next = next(number);
            let played = catch_unwind(AssertUnwindSafe(|| next.play()));
            let played = played.unwrap_or_else(|panic| {
                let (name, seed) = next.name();
                eprintln!("{name}, seed {seed}: it panicked");
                resume_unwind(panic)
            });
            let verdict = check(&played.history);
            print(&played, &verdict);
            let (report, also) = &mut *seen.lock().unwrap();
            report.add(&played, &verdict);
            also(&played, &verdict);
        }
    };
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(lane);
        }
    });
    seen.into_inner().unwrap().0
}

/// Prints a line for the schedule, and where its files are if it has violations.
fn print(played: &RunResult, verdict: &Verdict) {
    println!(
        "{} ({}), seed {}: {} faults, {} holds, {:.1} s",
        played.topology.name(),
        played.scene.unwrap_or(played.variant),
        played.seed,
        played.history.faults.len(),
        verdict.holds,
        played.took.as_secs_f64(),
    );
    if !verdict.violations.is_empty() {
        for violation in &verdict.violations {
            println!("  {violation}");
        }
        println!("  see {}", keep(played, verdict).display());
    }
}
