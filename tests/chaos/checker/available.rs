//! A server that can be reached is not said to be unavailable.
//!
//! It may be if something went wrong shortly before or meanwhile, if the machine was too busy, or if the
//! caller waits for less than an answer may take.

use super::waits::COMMAND_TIMEOUT;
use super::{Case, Rule, Spans, Verdict};
use crate::event::How;

/// How long after the last fault a connection may take to be made anew.
const RECONNECT: u64 = 3_000_000_000;
/// A machine that keeps processes from running for less than that is no excuse.
const HICCUP: u64 = 100_000_000;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    let faults = case.history.faults.iter();
    let trouble = Spans::of(faults.map(|fault| (fault.from, fault.until + RECONNECT)));
    for call in &case.calls {
        let (Some(How::Unavailable), Some(end)) = (call.how(), &call.ended) else {
            continue;
        };
        if (1..COMMAND_TIMEOUT).contains(&call.wait) {
            continue;
        }
        let from = call.asked.saturating_sub(RECONNECT);
        let busy = case.stalled_most(from, end.at) > HICCUP;
        if !busy && !trouble.touches(call.asked, end.at) {
            let text = format!(
                "{} was told at {} that the server is unavailable, though nothing had gone wrong",
                call.name(),
                case.when(end.at)
            );
            verdict.broken(Rule::Available, text);
        }
    }
}
