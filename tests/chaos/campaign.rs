//! Many schedules, a few at a time.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use crate::checker::{Verdict, check};
use crate::schedule::{Played, Schedule};

/// Plays what `next` says for each number as long as it `goes_on`, and gives what came of it to `then`.
pub fn run(
    lanes: usize,
    goes_on: impl Fn(u64) -> bool + Sync,
    next: impl Fn(u64) -> Schedule + Sync,
    then: impl Fn(&Played, &Verdict) + Sync,
) {
    let count = AtomicU64::new(0);
    let lane = || {
        loop {
            let number = count.fetch_add(1, Relaxed);
            if !goes_on(number) {
                return;
            }
            let schedule = next(number);
            let played = catch_unwind(AssertUnwindSafe(|| schedule.play()));
            let played = played.unwrap_or_else(|panic| {
                let (place, seed) = (schedule.place.name(), schedule.seed);
                eprintln!("{place}, seed {seed}: it came to no end");
                resume_unwind(panic)
            });
            then(&played, &check(&played.history));
        }
    };
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(lane);
        }
    });
}
