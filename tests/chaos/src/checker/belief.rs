//! No holder counts on a lease for longer than the server keeps it.
//!
//! Between two readings of a guard by one body that both find the lock held, the server keeps it at least
//! until the deadline that the first reading showed: nothing shortens a lease while its guard counts on it.
//! Locks that servers may have lost are left out until the leases granted before the fault have ended.

use super::{Call, Case, Rule, Verdict, millis};
use crate::journal::PRECISION;
use crate::witness::Sample;

/// Servers round to milliseconds, and the clocks of two processes may differ by a little.
const ROUNDED: u64 = 3_000_000;
/// Samples that took at least this long are too imprecise to use.
const LONG: u64 = 20_000_000;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    let samples = case.history.samples.iter();
    let mut samples: Vec<&Sample> = samples.filter(|it| it.to - it.from < LONG).collect();
    samples.sort_by_key(|sample| sample.from);
    for hold in case.holds() {
        let looks = hold.looks.iter().zip(hold.looks.iter().skip(1));
        for (look, next) in looks.filter(|(look, next)| look.left > 0 && next.left > 0) {
            let read = look.at + PRECISION;
            let first = samples.partition_point(|sample| sample.from < read);
            let during = samples[first..].iter();
            let mut during = during
                .take_while(|sample| sample.from < next.at)
                .filter(|sample| sample.key == hold.key && sample.to < next.at)
                .inspect(|_| verdict.believed += 1);
            let until = look.at + look.left;
            let too_short = |sample: &&&Sample| sample.to + sample.left + ROUNDED < until;
            if let Some(sample) = during.find(too_short)
                && !is_excused(case, hold, sample)
            {
                let text = format!(
                    "{} counted at {} on a lease of {}, which ended {} after {} on the server",
                    hold.name(),
                    case.when(look.at),
                    millis(look.left),
                    millis(sample.left),
                    case.when(sample.to),
                );
                verdict.broken(Rule::Belief, text);
                break;
            }
        }
    }
}

fn is_excused(case: &Case<'_>, hold: &Call, sample: &Sample) -> bool {
    let mut faults = case.taking(hold);
    faults.any(|fault| fault.from < sample.to && sample.from < fault.until + hold.ttl)
        || case.slept(hold.worker, sample.to)
}
