//! No call waits longer than allowed, whatever the fault.
//!
//! A single try is bounded by the command timeout instead. Time for which the process is stopped or its
//! thread blocked does not count, since the call cannot return then.

use super::{Case, Rule, Verdict, millis};
use crate::event::How;

/// The default of `Config::command_timeout`.
pub const COMMAND_TIMEOUT: u64 = 500_000_000;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    for call in &case.calls {
        let gave_up = matches!(call.how(), Some(How::Busy | How::Unavailable));
        let until = match (call.began(), &call.ended) {
            (Some(began), _) => began.at,
            (None, Some(end)) if gave_up => end.at,
            _ => continue,
        };
        let ran = (until - call.asked)
            .saturating_sub(case.stalled(call.worker, call.asked, until))
            .saturating_sub(case.blocked(call.worker, call.asked, until));
        let allowed = call.wait.max(COMMAND_TIMEOUT);
        verdict.longest_over = verdict.longest_over.max(ran.saturating_sub(allowed));
        if ran > allowed + case.noise(call.asked, until) {
            let text = format!(
                "{} was to wait for {} and waited for {}, from {} on",
                call.name(),
                millis(call.wait),
                millis(ran),
                case.when(call.asked)
            );
            verdict.broken(Rule::Waits, text);
        }
    }
}
