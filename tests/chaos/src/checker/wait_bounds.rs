//! No call waits longer than allowed, whatever the fault; and one that is refused since others of its process
//! wait, only beside one of these.
//!
//! A single try is bounded by the command timeout instead. Time for which the process is stopped or its
//! thread blocked does not count, since the call cannot return then. Nor does the time for which the call is
//! not polled after its deadline.

use super::{Call, Case, Rule, Verdict, millis};
use crate::journal::{CallKind, Outcome};

/// The default of `Config::command_timeout`.
pub const COMMAND_TIMEOUT: u64 = 500_000_000;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    for call in &case.calls {
        if call.kind == CallKind::WaitsAlone && is_refused(call) && !is_beside_another(case, call) {
            let text = format!("{} was refused, though no other call waited", call.name());
            verdict.broken(Rule::Waits, text);
        }
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

/// Returns `true` if the call was busy before it had waited for as long as it may.
fn is_refused(call: &Call) -> bool {
    let end = call.ended.as_ref();
    let end = end.filter(|end| end.outcome == Outcome::Busy && call.began().is_none());
    end.is_some_and(|end| end.at < call.called.saturating_add(call.wait))
}

/// Returns `true` if another call of its process waited for the same lock meanwhile.
fn is_beside_another(case: &Case<'_>, call: &Call) -> bool {
    let end = call.over().unwrap_or(case.end);
    let mut others = case.calls.iter();
    others.any(|other| {
        (other.worker, other.key) == (call.worker, call.key)
            && other.number != call.number
            && other.wait > 0
            && other.called <= end
            && other
                .waited_until()
                .is_none_or(|until| until >= call.called)
    })
}
