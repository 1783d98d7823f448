//! No more calls provably share a lock than the lowest of their limits, unless a server has lost it.
//!
//! Readers of one worker may share one hold, so they count as one holder. Calls that hold the lock
//! exclusively are judged by the rule of exclusion.

use std::collections::HashSet;

use super::{Call, Case, Rule, Verdict};
use crate::fault::Fault;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    for (key, holds) in case.by_key() {
        // Those that share the lock when the next one begins, each with the end of its provable hold.
        let mut sharing: Vec<(&Call, u64)> = Vec::new();
        for hold in holds.filter(|hold| hold.kind.limit() > 1) {
            let Some((from, until)) = hold.held() else {
                continue;
            };
            sharing.retain(|(_, end)| *end > from);
            sharing.push((hold, until));
            let calls: Vec<&Call> = sharing.iter().map(|(call, _)| *call).collect();
            if exceeds_a_limit(&calls) {
                judge(case, verdict, (key, from), &calls);
            }
        }
    }
}

fn exceeds_a_limit(calls: &[&Call]) -> bool {
    let lowest = calls.iter().map(|call| call.kind.limit()).min();
    let (readers, others): (Vec<&Call>, Vec<&Call>) =
        calls.iter().partition(|call| call.kind.reads());
    let readers: HashSet<u32> = readers.iter().map(|call| call.worker).collect();
    lowest.is_some_and(|lowest| readers.len() + others.len() > lowest)
}

fn judge(case: &Case<'_>, verdict: &mut Verdict, (key, from): (u32, u64), calls: &[&Call]) {
    let longest = calls.iter().map(|call| call.ttl).max().unwrap_or(0);
    let mut faults = case.forgetting(key);
    let takes = |fault: &Fault| calls.iter().any(|call| fault.takes_from(call.worker));
    let forgot = |fault: &Fault| fault.from < from && from <= fault.until.saturating_add(longest);
    if faults.any(|fault| takes(fault) && forgot(fault)) {
        verdict.double_holds += 1;
        return;
    }
    let names: Vec<String> = calls.iter().map(|call| call.name()).collect();
    let text = format!(
        "{} held it at {}: more than the limit of one of them",
        names.join(", "),
        case.when(from),
    );
    verdict.broken(Rule::Limits, text);
}
