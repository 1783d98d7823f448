//! Every worker that was not killed ends, each call with a permitted result, and enough happens for the other
//! rules to be meaningful.

use std::collections::HashSet;

use super::{Call, Case, Rule, Verdict};
use crate::journal::{CallKind, EventKind, Outcome};

/// Fewer than one hold in this time is not enough.
const SELDOM: u64 = 2_000_000_000;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    for odd in &case.odd {
        verdict.broken(Rule::Progress, odd.clone());
    }
    let (mut workers, mut ended) = (HashSet::new(), HashSet::new());
    for event in &case.history.events {
        workers.insert(event.worker);
        if let EventKind::Exited { .. } = event.what {
            ended.insert(event.worker);
        }
    }
    for worker in workers.difference(&ended) {
        if !case.killed.contains_key(worker) {
            let text = format!("worker {worker} did not end");
            verdict.broken(Rule::Progress, text);
        }
    }
    for call in &case.calls {
        let meant = match call.outcome() {
            None => call.cut_off.is_some(),
            Some(Outcome::Wrong(_)) => false,
            Some(Outcome::Failed) => call.kind == CallKind::Fails,
            Some(Outcome::Panicked) => call.kind == CallKind::Panics,
            Some(Outcome::Dropped) => call.kind.may_be_dropped(),
            Some(_) => true,
        };
        if !meant {
            let text = format!("{} ended as {:?}", call.name(), call.outcome());
            verdict.broken(Rule::Progress, text);
        }
    }
    // The lease of a killed holder has to run out before the next hold, and a hold has to end.
    let ttls = case.calls.iter().map(|call| 2 * call.ttl);
    let held = case.holds().filter_map(Call::held);
    let slow = ttls.chain(held.map(|(from, to)| to - from)).max();
    let seldom = slow.map_or(SELDOM, |slow| slow.max(SELDOM));
    let (holds, took) = (verdict.holds, case.end - case.start);
    if holds == 0 || (holds as u64) < took / seldom {
        let text = format!("only {holds} holds in {} s", took / 1_000_000_000);
        verdict.broken(Rule::Progress, text);
    }
}
