//! `shutdown` returns in time. It is called when all faults are over, so it waits only for releases that are
//! under way.

use super::{Case, Rule, Verdict, millis};
use crate::journal::EventKind;

/// A request without a reply is abandoned, and its connection replaced, in less time than this.
const ALLOWED: u64 = 5_000_000_000;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    for event in &case.history.events {
        let EventKind::ShutDown { took } = event.what else {
            continue;
        };
        if took > ALLOWED + case.noise(event.at.saturating_sub(took), event.at) {
            let text = format!("shutdown of worker {} took {}", event.worker, millis(took));
            verdict.broken(Rule::Shutdown, text);
        }
    }
}
