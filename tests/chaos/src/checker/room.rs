//! The spans in which a lock has no room for a waiter.
//!
//! Of the calls that wait it is unknown which is the first in the queue, and only that one may enter. So a
//! lock counts as full unless each of them fits beside its holders.

use std::collections::BTreeMap;

use super::{Call, Case, Spans};
use crate::journal::CallKind;

/// The number of calls with each limit.
type Limits = BTreeMap<usize, usize>;

/// Returns the spans in which the calls, which are for one key, leave no room for one that waits. A call that
/// has ended or cannot continue holds nothing, although its lease may last, and is in no one's way, although
/// it may be in the queue. One that is not polled is in the queue.
pub fn full(case: &Case<'_>, calls: &[&Call]) -> Spans {
    let mut changes = Vec::new();
    for call in calls {
        let running = |spans: Spans| match case.stalls.get(&call.worker) {
            Some(stalls) => spans.minus(stalls),
            None => spans,
        };
        let holds = running(Spans::of(held(call)).minus(&call.aside));
        let holds = holds.iter().map(|span| (true, span));
        let waits = running(Spans::of(waited(call)));
        for (is_holder, (from, to)) in holds.chain(waits.iter().map(|span| (false, span))) {
            changes.push((from, is_holder, call.kind.limit(), true));
            changes.push((to, is_holder, call.kind.limit(), false));
        }
    }
    changes.sort_unstable();
    let mut spans = Vec::new();
    let (mut holders, mut waiters, mut since) = (Limits::new(), Limits::new(), 0);
    for (at, is_holder, limit, begins) in changes {
        if is_full(&holders, &waiters) {
            spans.push((since, at));
        }
        since = at;
        let calls = if is_holder {
            &mut holders
        } else {
            &mut waiters
        };
        let count = calls.entry(limit).or_default();
        match begins {
            true => *count += 1,
            false => *count -= 1,
        }
        if *count == 0 {
            calls.remove(&limit);
        }
    }
    Spans::of(spans)
}

fn is_full(holders: &Limits, waiters: &Limits) -> bool {
    let count: usize = holders.values().sum();
    let lowest = holders.keys().chain(waiters.keys()).min();
    lowest.is_some_and(|lowest| count >= *lowest)
}

/// Returns the span in which the call may hold the lock.
fn held(call: &Call) -> Option<(u64, u64)> {
    let from = match call.kind {
        // It held the lock exclusively until then, or may hold this one while it waits for that of another
        // key.
        CallKind::Downgraded => call.called,
        _ if call.kind.is_of_several() => call.called,
        _ => call.began()?.at,
    };
    let last = call.looks.last().map_or(from, |look| look.at);
    Some((from, call.over().unwrap_or(last).max(last)))
}

/// Returns the span in which the call may be in the queue.
fn waited(call: &Call) -> Option<(u64, u64)> {
    let waits = call.wait > 0 && call.kind.queues();
    waits.then(|| (call.called, call.waited_until().unwrap_or(u64::MAX)))
}
