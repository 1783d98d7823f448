//! A body does not continue past the next await once its lease has run out.
//!
//! One step may find the lease run out: the process was stopped during that step, or reached it without an
//! await. Nothing stops a body that is to continue after a loss, or that holds a guard by hand.

use super::{Case, Rule, Verdict};

/// A stopped process records its stall up to this much later than its bodies continue.
const NEAR: u64 = 50_000_000;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    for call in case.holds().filter(|call| call.is_cancelled()) {
        let mut late = call.looks.iter().filter(|look| look.left == 0);
        let Some(first) = late.next() else {
            continue;
        };
        verdict.late_steps += 1;
        let began = call.began().is_some_and(|look| look.left == 0);
        let (from, to) = (first.at.saturating_sub(NEAR), first.at + NEAR);
        // It may have been asked for the lock before its thread was free: then it holds the lock, and ends
        // soon.
        let is_asked = case.was_asked(call, first.at);
        if began && !is_asked && case.stalled(call.worker, from, to) == 0 {
            let text = format!(
                "{} began at {} without a lease",
                call.name(),
                case.when(first.at)
            );
            verdict.broken(Rule::Deadline, text);
        }
        if let Some(next) = call.looks.iter().find(|look| look.at > first.at) {
            let text = format!(
                "{} continued at {}, though its lease had run out by {}",
                call.name(),
                case.when(next.at),
                case.when(first.at)
            );
            verdict.broken(Rule::Deadline, text);
        }
    }
}
