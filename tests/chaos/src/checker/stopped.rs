//! A revocation says that the holder has stopped only once its body runs no more, whoever else has taken its
//! lock, and whether or not its lease has ended.

use super::{Call, Case, Rule, Verdict};
use crate::fault::{Fault, Keys, Kind};
use crate::journal::{Answer, CallKind};
use crate::revocation::Whom;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    for revocation in &case.revocations {
        let (Some(Answer::Stopped), Some(until)) = (&revocation.answer, revocation.until) else {
            continue;
        };
        let Whom::Worker {
            worker,
            exclusive: true,
        } = revocation.whom
        else {
            continue;
        };
        let calls = case.by_key.get(&revocation.key).into_iter().flatten();
        let calls = calls.map(|call| &case.calls[*call]);
        // One that begins meanwhile may be the one that is meant.
        let began = |call: &&Call| call.began().is_some_and(|look| look.at <= until);
        let last = calls
            .filter(|call| call.worker == worker)
            .take_while(began)
            .last();
        let runs_on = last.filter(|call| {
            holds_until(case, call, revocation.seen)
                && call.looks.last().is_some_and(|look| look.at > until)
        });
        if let Some(call) = runs_on {
            let text = format!(
                "worker {worker} had stopped, a revocation said at {}; its call {} for key {} ran on",
                case.when(until),
                call.number,
                call.key
            );
            verdict.broken(Rule::Stopped, text);
        }
    }
}

/// Returns `true` if the call has begun, and nothing has ended its lease by then: its process may have got
/// the lock anew for another call, which has not begun yet.
fn holds_until(case: &Case<'_>, call: &Call, seen: u64) -> bool {
    let Some(began) = call.began().filter(|look| look.at < seen) else {
        return false;
    };
    let of_another_key =
        |fault: &Fault| matches!(fault.forgotten, Some(Keys::One(key)) if key != call.key);
    let is_none = |fault: &Fault| fault.kind == Kind::Ask || of_another_key(fault);
    let mut faults = case.history.faults.iter().filter(|fault| !is_none(fault));
    let is_renewed = !matches!(call.kind, CallKind::Unrenewed | CallKind::MaxHold);
    is_renewed && faults.all(|fault| fault.until < began.at || seen < fault.from)
}
