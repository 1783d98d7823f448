//! Counts the process faults that hit a holder, and those that hit a waiter.

use super::{Case, Verdict};
use crate::fault::FaultTarget;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    let mut faults: Vec<_> = case.history.faults.iter().collect();
    faults.retain(|fault| fault.kind.target() == FaultTarget::Process);
    for fault in faults {
        let at = fault.from;
        let mut held = false;
        let mut waited = false;
        for call in &case.calls {
            let is_here = fault.workers.contains(&call.worker) && call.called < at;
            if is_here && call.over().is_none_or(|over| over >= at) {
                match call.began() {
                    Some(look) if look.at < at => held = true,
                    _ => waited = true,
                }
            }
        }
        verdict.hit.0 += usize::from(held);
        verdict.hit.1 += usize::from(waited);
    }
}
