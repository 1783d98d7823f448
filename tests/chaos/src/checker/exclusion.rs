//! A call that holds a lock exclusively holds it alone, unless a server has lost it.
//!
//! Another client can acquire a lost lock while its earlier holder still counts on the lease: for at most one
//! ttl after the loss, since the server confirms no renewal any more.

use super::{Call, Case, Rule, Verdict, millis};

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    for (_, holds) in case.by_key() {
        // Earlier holds that may continue when the next one begins.
        let mut held: Vec<(&Call, u64, u64)> = Vec::new();
        for hold in holds {
            let Some((from, until)) = hold.held() else {
                continue;
            };
            held.retain(|earlier| earlier.2 > from);
            let later = (hold, from, until);
            for earlier in &held {
                if earlier.0.kind.limit().min(hold.kind.limit()) == 1 {
                    judge(case, verdict, *earlier, later);
                }
            }
            held.push(later);
        }
    }
}

type Held<'c> = (&'c Call, u64, u64);

fn judge(case: &Case<'_>, verdict: &mut Verdict, earlier: Held<'_>, later: Held<'_>) {
    let ((one, began, until), (other, from, other_until)) = (earlier, later);
    // The hold that ends first is either the one that a server lost, or the one it granted after the loss.
    let (end, first) = match until <= other_until {
        true => (until, one),
        false => (other_until, other),
    };
    let mut faults = case.forgetting(one.key);
    let excused = faults.any(|fault| {
        // A grant from before the fault may reach its caller after it, and after the other call's grant;
        // within a process it may also have been handed off.
        let had_it =
            |call: &Call| call.called < fault.until || case.held_by(call.worker, call.key, fault);
        let forgotten =
            |call: &Call, by: u64| fault.takes_from(call.worker) && fault.from < by && had_it(call);
        let was_forgotten = forgotten(one, from) || forgotten(other, began);
        was_forgotten && end <= fault.until.saturating_add(case.unaware(fault, first, end))
    });
    let both = end.saturating_sub(from);
    if excused {
        verdict.double_holds += 1;
        verdict.longest_double_hold = verdict.longest_double_hold.max(both);
        return;
    }
    let text = format!(
        "{} held it from {} to {}, and {} from {} on: both for {}",
        one.name(),
        case.when(began),
        case.when(until),
        other.name(),
        case.when(from),
        millis(both),
    );
    verdict.broken(Rule::Exclusion, text);
}
