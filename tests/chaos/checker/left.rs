//! At the end nothing is left: no key, no queue entry, no thread, no task, no connection.

use super::{Case, Rule, Verdict};
use crate::event::What;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    for left in &case.history.left {
        verdict.broken(Rule::Left, left.clone());
    }
    for event in &case.history.events {
        if let What::Over { threads, tasks } = event.what
            && (threads, tasks) != (0, 0)
        {
            let text = format!(
                "{threads} threads and {tasks} tasks of worker {}",
                event.worker
            );
            verdict.broken(Rule::Left, text);
        }
    }
}
