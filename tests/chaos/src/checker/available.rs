//! A reachable server is not reported as unavailable.
//!
//! The report is permitted if a fault occurred shortly before or during the call, if the machine was too
//! busy, if the process was only making its connections, or if the caller's timeout is shorter than a reply
//! may take.

use std::collections::HashMap;

use super::wait_bounds::COMMAND_TIMEOUT;
use super::{Case, Rule, Spans, Verdict};
use crate::journal::Outcome;

/// The longest time that reconnecting may take after the last fault.
const RECONNECT: u64 = 3_000_000_000;
/// For how long the calls of a new process use connections for the first time. Each takes several round
/// trips, and a busy machine answers late without any process having stalled.
const FIRST_CALLS: u64 = COMMAND_TIMEOUT;
/// A process that does not run for at most this long is no excuse.
const HICCUP: u64 = 100_000_000;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    let faults = case.faults();
    let trouble = Spans::of(faults.map(|fault| (fault.from, fault.until + RECONNECT)));
    let mut first_calls = HashMap::new();
    for call in &case.calls {
        let first_call = *first_calls.entry(call.worker).or_insert(call.called);
        let (Some(Outcome::Unavailable), Some(end)) = (call.outcome(), &call.ended) else {
            continue;
        };
        if (1..COMMAND_TIMEOUT).contains(&call.wait) {
            continue;
        }
        let from = call.called.saturating_sub(RECONNECT);
        let busy = case.stalled_most(from, end.at) > HICCUP;
        let connects = call.called < first_call + FIRST_CALLS;
        if !busy && !connects && !trouble.touches(call.called, end.at) {
            let text = format!(
                "{} reported at {} that the server is unavailable, though no fault had occurred",
                call.name(),
                case.when(end.at)
            );
            verdict.broken(Rule::Available, text);
        }
    }
}
