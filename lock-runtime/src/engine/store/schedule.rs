//! When a waiter looks again: the first one soon, and the others when they may have become the first.

use crate::engine::store::machine::CALLED;
use crate::util::backoff::fraction;
use crate::util::clock::Timestamp;
use std::time::Duration;

const SHORTEST: Duration = Duration::from_millis(2);
/// So a waiter that is called has the time for more than one answer.
const LONGEST: Duration = Duration::from_millis(1000);
/// Of those that are not called with the first: still less than a grant lasts.
const LONGEST_BEHIND: Duration = Duration::from_millis(1750);
const LONGEST_OF_FIRST: Duration = Duration::from_millis(250);
/// The pause for each claim ahead while it is not known how long holds take.
const UNKNOWN: Duration = Duration::from_millis(10);
/// After how many looks without progress the pauses grow, and how much.
const PATIENT: i32 = 3;
const GROWTH: f64 = 1.4;

/// The looks of one claim that waits.
#[derive(Clone, Copy)]
pub(crate) struct Looks {
    /// When the last look was sent that showed it waiting.
    pub(crate) asked: Timestamp,
    ahead: usize,
    /// When it came to that place.
    since: Timestamp,
    /// The number of looks since.
    idle: i32,
}

impl Looks {
    pub(crate) fn begin(ahead: usize, asked: Timestamp) -> Looks {
        Looks {
            asked,
            ahead,
            since: asked,
            idle: 0,
        }
    }

    /// Takes the next look. Returns how long a hold has taken, if the claim has moved up.
    pub(crate) fn next(&mut self, ahead: usize, asked: Timestamp) -> Option<Duration> {
        if ahead > self.ahead {
            *self = Looks::begin(ahead, asked);
        }
        self.asked = asked;
        let moved = self.ahead.checked_sub(ahead).filter(|moved| *moved > 0);
        let Some(moved) = moved else {
            self.idle += 1;
            return None;
        };
        let took = asked.elapsed_since(self.since) / moved as u32;
        (self.ahead, self.since, self.idle) = (ahead, asked, 0);
        Some(took)
    }

    /// Returns the time until the next look. `pace`: how long a hold takes.
    pub(crate) fn pause(&self, pace: Option<Duration>) -> Duration {
        let growth = GROWTH.powi((self.idle - PATIENT).clamp(0, 20));
        let (pause, longest) = match (self.ahead, pace) {
            // So it is late by no more than that part of the hold.
            (0, _) => (self.asked.elapsed_since(self.since) / 6, LONGEST_OF_FIRST),
            // It has to learn that it became the first before it is served. A greater part of the pace would
            // be what the progress of the others then waits for, and so confirm itself.
            (1, Some(pace)) => (pace.mul_f64(0.25 * growth), LONGEST),
            (ahead, Some(pace)) => (pace.mul_f64(0.4 * ahead as f64 * growth), behind(ahead)),
            (ahead, None) => (UNKNOWN.mul_f64((ahead + 1) as f64 * growth), behind(ahead)),
        };
        let pause = pause.clamp(SHORTEST, longest);
        pause.mul_f64(0.75) + fraction(pause.mul_f64(0.25))
    }
}

/// Returns the longest pause of a claim with so many ahead.
fn behind(ahead: usize) -> Duration {
    match ahead < CALLED {
        true => LONGEST,
        false => LONGEST_BEHIND,
    }
}

/// Returns the pace of a lock once another hold has taken that long.
pub(crate) fn pace_after(pace: Option<Duration>, took: Duration) -> Duration {
    pace.map_or(took, |pace| (pace + took) / 2)
}
