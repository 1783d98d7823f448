//! At the end nothing is left: no key, no queue entry, no thread, no task, no connection.

use super::{Case, Rule, Verdict};
use crate::journal::EventKind;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    for left in &case.history.left {
        verdict.broken(Rule::Leaks, left.clone());
    }
    for event in &case.history.events {
        if let EventKind::Exited { threads, tasks } = event.what
            && (threads, tasks) != (0, 0)
        {
            let text = format!(
                "{threads} threads and {tasks} tasks of worker {}",
                event.worker
            );
            verdict.broken(Rule::Leaks, text);
        }
    }
}
