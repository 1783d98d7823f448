//! No call waits longer than allowed, whatever the fault.
//!
//! A single try is bounded by the command timeout instead. Time for which the process is stopped or its
//! thread blocked does not count, since the call cannot return then. Nor does the time for which the call is not polled after
//! its deadline.

use super::{Case, Rule, Verdict, millis};
use crate::journal::Outcome;

/// The default of `Config::command_timeout`.
pub const COMMAND_TIMEOUT: u64 = 500_000_000;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    for call in &case.calls {
        let gave_up = matches!(call.outcome(), Some(Outcome::Busy | Outcome::Unavailable));
        let until = match (call.began(), &call.ended) {
            (Some(began), _) => began.at,
            (None, Some(end)) if gave_up => end.at,
            _ => continue,
        };
        let allowed = call.wait.max(COMMAND_TIMEOUT);
        let deadline = call.called.saturating_add(allowed);
        let ran = (until - call.called)
            .saturating_sub(case.stalled(call.worker, call.called, until))
            .saturating_sub(case.blocked(call.worker, call.called, until))
            .saturating_sub(call.aside.covered(deadline, until));
        verdict.longest_over = verdict.longest_over.max(ran.saturating_sub(allowed));
        if ran > allowed + case.noise(call.called, until) {
            let text = format!(
                "{} was to wait for {} and waited for {}, from {} on",
                call.name(),
                millis(call.wait),
                millis(ran),
                case.when(call.called)
            );
            verdict.broken(Rule::Waits, text);
        }
    }
}
