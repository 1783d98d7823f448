//! A lock that no call holds or waits for is soon free: a process keeps it for a third of the ttl at the
//! most, and renews none that no body holds.

use super::{Call, Case, Rule, Spans, Verdict, millis};
use crate::witness::Sample;

/// How long a lock may stay held after its last call, or after the time for which it may be kept.
const SOON: u64 = 1_000_000_000;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    for key in 0..=case.calls.iter().map(|call| call.key).max().unwrap_or(0) {
        let calls = || case.calls.iter().filter(|call| call.key == key);
        let ttl = calls().map(|call| call.ttl).max().unwrap_or(0);
        let until = |call: &Call| {
            let until = call.kept_until()?;
            Some(until + SOON + case.noise(call.called, until))
        };
        let used = Spans::of(calls().map(|call| (call.called, until(call).unwrap_or(u64::MAX))));
        let samples = case.history.samples.iter();
        let mut samples = samples.filter(|sample| sample.key == key && sample.left > 0);
        let is_odd = |sample: &&Sample| {
            let since = sample.from.saturating_sub(ttl + SOON);
            let mut faults = case.history.faults.iter();
            sample.from > case.start
                && !used.touches(sample.from, sample.to + 1)
                && faults.all(|fault| fault.until < since || sample.to < fault.from)
        };
        if let Some(sample) = samples.find(is_odd) {
            let text = format!(
                "key {key} was held at {}, for {} more, though no call used it",
                case.when(sample.from),
                millis(sample.left)
            );
            verdict.broken(Rule::Leaks, text);
        }
    }
}
