//! No panic occurs but the intended ones.

use super::{Case, Rule, Verdict};
use crate::journal::EventKind;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    for event in &case.history.events {
        if let EventKind::Panicked { text } = &event.what {
            let text = format!("worker {}: {text}", event.worker);
            verdict.broken(Rule::Panics, text);
        }
    }
}
