//! `shutdown` comes back in time: it happens when all is well again, so that there is nothing to wait for but
//! releases that are on their way.

use super::{Case, Rule, Verdict, millis};
use crate::event::What;

/// A request that gets no answer is given up sooner than that, and its connection made anew.
const ALLOWED: u64 = 5_000_000_000;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    for event in &case.history.events {
        let What::ShutDown { took } = event.what else {
            continue;
        };
        if took > ALLOWED + case.noise(event.at.saturating_sub(took), event.at) {
            let text = format!("that of worker {} took {}", event.worker, millis(took));
            verdict.broken(Rule::Shutdown, text);
        }
    }
}
