//! Many schedules, a few at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::checker::{Verdict, check};
use crate::schedule::{Played, Schedule};

/// Until when schedules are begun.
#[derive(Clone, Copy)]
pub enum Until {
    Time(Duration),
    Schedules(u64),
}

/// Plays what `next` says for each number, and gives what came of it to `then`.
pub fn run(
    until: Until,
    lanes: usize,
    next: impl Fn(u64) -> Schedule + Sync,
    then: impl FnMut(Played, Verdict) + Send,
) {
    let start = Instant::now();
    let (count, then) = (AtomicU64::new(0), Mutex::new(then));
    let lane = || {
        loop {
            let number = count.fetch_add(1, Relaxed);
            let is_over = match until {
                Until::Time(time) => start.elapsed() >= time,
                Until::Schedules(most) => number >= most,
            };
            if is_over {
                return;
            }
            let schedule = next(number);
            let played = catch_unwind(AssertUnwindSafe(|| schedule.play()));
            let played = played.unwrap_or_else(|panic| {
                eprintln!(
                    "{} {}: it came to no end",
                    schedule.place.name(),
                    schedule.seed
                );
                std::panic::resume_unwind(panic)
            });
            let verdict = check(&played.history);
            then.lock().unwrap()(played, verdict);
        }
    };
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(lane);
        }
    });
}
