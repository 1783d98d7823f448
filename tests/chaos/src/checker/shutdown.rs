//! A shutdown ends all calls and all holds of its worker.
//!
//! - It returns in time. All faults are over, so it waits for releases that are under way, for bodies within
//!   its grace, and for the leases of those that cannot be canceled.
//! - No call ends by it before it begins. One that waits ends soon, and a body not before the grace is over.
//! - When it has returned, no body holds a lock.

use super::wait_bounds::COMMAND_TIMEOUT;
use super::{Call, Case, Rule, Verdict, millis};
use crate::journal::{EventKind, Outcome};

/// A request without a reply is abandoned, and its connection replaced, in less time than this.
const ALLOWED: u64 = 5_000_000_000;

/// A shutdown that began while calls were under way.
#[derive(Clone, Copy)]
struct Began {
    at: u64,
    grace: u64,
}

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    let ends = case.calls.iter();
    for call in ends.filter(|call| call.outcome() == Some(&Outcome::ShutDown)) {
        ended_by_it(case, verdict, call);
    }
    for event in &case.history.events {
        let EventKind::ShutDown { took } = event.what else {
            continue;
        };
        let from = event.at.saturating_sub(took);
        let theirs = case.calls.iter().filter(|call| call.worker == event.worker);
        let before = theirs.filter(|call| call.called < from);
        let open = before.filter(|call| call.over().is_none_or(|over| over > from));
        let open: Vec<&Call> = open.collect();
        let ttl = open.iter().map(|call| call.ttl).max().unwrap_or(0);
        let grace = began(case, event.worker).map_or(0, |began| began.grace);
        let ran = took.saturating_sub(case.blocked(event.worker, from, event.at));
        if ran > ALLOWED + grace + ttl + case.noise(from, event.at) {
            let text = format!("shutdown of worker {} took {}", event.worker, millis(took));
            verdict.broken(Rule::Shutdown, text);
        }
        for call in open {
            let mut late = call.looks.iter().filter(|look| look.left > 0);
            if let Some(look) = late.find(|look| look.at > event.at) {
                let text = format!(
                    "{} held the lock at {}, after the shutdown of its worker had returned at {}",
                    call.name(),
                    case.when(look.at),
                    case.when(event.at)
                );
                verdict.broken(Rule::Shutdown, text);
            }
        }
    }
}

fn ended_by_it(case: &Case<'_>, verdict: &mut Verdict, call: &Call) {
    let end = call.over().unwrap_or(case.end);
    let began = began(case, call.worker).filter(|began| began.at <= end);
    let is_due = |began: Began| match call.began() {
        Some(_) => end >= began.at + began.grace,
        None => {
            let from = began.at.max(call.called);
            let ran = (end - from)
                .saturating_sub(case.stalled(call.worker, from, end))
                .saturating_sub(case.blocked(call.worker, from, end))
                .saturating_sub(call.aside.covered(from, end));
            ran <= COMMAND_TIMEOUT + case.noise(from, end)
        }
    };
    if !began.is_some_and(is_due) {
        let text = format!(
            "{} was ended at {} by a shutdown that had not begun, or let bodies finish, or should have ended it before",
            call.name(),
            case.when(end)
        );
        verdict.broken(Rule::Shutdown, text);
    }
}

/// Returns the shutdown of the worker that began while calls were under way.
fn began(case: &Case<'_>, worker: u32) -> Option<Began> {
    let theirs = case.history.events.iter();
    let mut theirs = theirs.filter(|event| event.worker == worker);
    theirs.find_map(|event| match event.what {
        EventKind::ShutsDown { grace } => Some(Began {
            at: event.at,
            grace,
        }),
        _ => None,
    })
}
