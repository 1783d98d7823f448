//! No lock stays without a holder while a call waits for it, nor with [room](full) for every call that waits:
//! one of them soon acquires it.
//!
//! The permitted gap follows from how a lock becomes free when its holder cannot release it:
//! - its lease runs out, at most one ttl later;
//! - the server may have granted it to a waiter that is gone or stopped, and grants it anew after 2 s. Each
//!   further such waiter behind that one costs 0.2 s: every process that was killed or stopped while it may
//!   have had a queue entry counts once, or twice if an earlier withdrawal may not have reached the server;
//! - where calls share the lock, the first waiter may be gone and keep those behind it waiting, although they
//!   fit beside the holders. It is passed over when it has been silent for 1.5 s;
//! - each call that waits and is not polled may be granted the lock, which passes on after 2 s;
//! - the time for which servers were unavailable does not count, nor does the time that reconnecting may then
//!   take.
//!
//! If no fault occurred for as long as a queue entry lives, the bound is the polling interval of the first
//! waiter in the queue.
//!
//! A schedule may promise a shorter gap if more is known of its faults, or a short mean of all gaps if there
//! are none: waiters that enter only when they poll raise the mean; a single stall of the machine does not.
//!
//! A body that blocks its thread keeps other calls of its process from continuing; that time does not count.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::room::full;
use super::{Call, Case, Rule, Spans, Verdict, millis};
use crate::fault::{Fault, Kind};

const SECOND: u64 = 1_000_000_000;
/// The duration of a grant.
const GRANT: u64 = 2 * SECOND;
/// The additional delay for each waiter that is gone.
const EACH: u64 = SECOND / 5;
/// How long a first waiter that is gone may keep others waiting beside the holders: the time for which it may
/// be silent, and the time that it then has to poll.
const SILENT: u64 = 2 * SECOND;
/// The polling interval of the first waiter in a queue.
const FIRST: u64 = SECOND / 2;
/// The longest time that the queue entry of a killed process may last.
const GHOST: u64 = 50 * SECOND;
/// The default of `Config::connect_timeout`.
const RECONNECT: u64 = 2 * SECOND;
/// Where a gap is promised, a process that does not run for less than this still counts as waiting.
const HICCUP: u64 = SECOND / 4;

/// The number of longest gaps that the mean leaves out: the machine may have caused them.
const LONGEST: usize = 2;
/// The least number of other gaps for which the mean is checked.
const ENOUGH: usize = 8;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    let mut of_key: BTreeMap<u32, Vec<&Call>> = BTreeMap::new();
    for call in &case.calls {
        of_key.entry(call.key).or_default().push(call);
    }
    // A fault that cuts off only some workers does not excuse keeping the others waiting.
    let faults = case.history.faults.iter().filter(|fault| fault.away);
    let faults = faults.filter(|fault| fault.workers.is_empty());
    let away = Spans::of(faults.map(|fault| (fault.from, fault.until + RECONNECT)));
    for (key, calls) in of_key {
        let lock = Lock {
            case,
            ttl: calls.iter().map(|call| call.ttl).max().unwrap_or(0),
            workers: calls.iter().map(|call| call.worker).collect(),
            entries: {
                let limits: HashSet<usize> = calls.iter().map(|call| call.kind.limit()).collect();
                limits.len()
            },
            aside: calls.iter().flat_map(|call| call.aside.iter()).collect(),
        };
        let promises = &case.history.promises;
        let promised = promises.gap;
        let hiccup = match promised.or(promises.mean_gap) {
            Some(_) => HICCUP,
            None => 0,
        };
        let mut gaps = Vec::new();
        for (from, to) in idle(case, &calls, hiccup).iter() {
            let gap = to - from - away.covered(from, to);
            verdict.longest_gap = verdict.longest_gap.max(gap);
            // Nearly all gaps are shorter; this avoids the full computation.
            let noise = case.noise(from, to);
            gaps.push(gap.saturating_sub(case.noise.covered(from, to)));
            if promised.is_none() && gap <= FIRST + noise {
                continue;
            }
            let promised = promised.map(|gap| gap + case.noise.covered(from, to));
            let allowed = promised.unwrap_or_else(|| lock.allowed(from, to));
            if gap > allowed {
                let text = format!(
                    "key {key} had no holder, or room for one more, for {} of the time from {} to {}, \
                     though a call waited: at most {} is allowed",
                    millis(gap),
                    case.when(from),
                    case.when(to),
                    millis(allowed)
                );
                verdict.broken(Rule::Stall, text);
            }
        }
        if let Some((promised, mean)) = promises.mean_gap.zip(mean(gaps))
            && mean > promised
        {
            let text = format!(
                "key {key} had no holder, or room for one more, for {} on average, though a call waited: {} is \
                 promised",
                millis(mean),
                millis(promised)
            );
            verdict.broken(Rule::Stall, text);
        }
    }
}

/// Returns the mean of all gaps but the longest, if there are enough.
fn mean(mut gaps: Vec<u64>) -> Option<u64> {
    gaps.sort_unstable();
    let count = gaps.len().checked_sub(LONGEST)?;
    (count >= ENOUGH).then(|| gaps[..count].iter().sum::<u64>() / count as u64)
}

/// Returns the spans in which a call that was polled and could continue, apart from hiccups, waited for the
/// lock, which had room for it beside the calls that could continue, and in which no call acquired it.
fn idle(case: &Case<'_>, calls: &[&Call], hiccup: u64) -> Spans {
    let mut called: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
    let mut waited: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
    for call in calls {
        // The kill happened after the last recorded event.
        let span = (call.called, call.waited_until().unwrap_or(case.end));
        called.entry(call.worker).or_default().push(span);
        if call.wait > 0 && call.kind.queues() {
            let polled = Spans::of([span]).minus(&call.aside);
            waited.entry(call.worker).or_default().extend(polled.iter());
        }
    }
    let running = waited.into_iter().flat_map(|(worker, spans)| {
        let mut spans = Spans::of(spans).minus(&cut_off(case, worker));
        if let Some(stalls) = case.stalls.get(&worker) {
            let long = |(from, to): &(u64, u64)| to - from >= hiccup;
            spans = spans.minus(&Spans::of(stalls.iter().filter(long)));
        }
        if let Some(blocked) = case.blocked.get(&worker) {
            spans = spans.minus(blocked);
        }
        spans.iter().collect::<Vec<_>>()
    });
    // A blocked call may have been granted the lock and keeps it until its body can begin; so may a single
    // try.
    let blocked = called.iter().filter_map(|(worker, spans)| {
        let blocked = case.blocked.get(worker)?;
        let free = blocked.minus(&Spans::of(spans.iter().copied()));
        Some(blocked.minus(&free))
    });
    let blocked: Vec<Spans> = blocked.collect();
    let blocked = Spans::of(blocked.iter().flat_map(Spans::iter));
    let acquired = calls.iter().filter_map(|call| call.began());
    let acquired = Spans::of(acquired.map(|look| (look.at, look.at + 1)));
    Spans::of(running)
        .minus(&full(case, calls))
        .minus(&blocked)
        .minus(&acquired)
}

/// Returns the spans in which the worker alone could not reach the servers.
fn cut_off(case: &Case<'_>, worker: u32) -> Spans {
    let faults = case.history.faults.iter();
    let faults = faults.filter(|fault| fault.away && fault.workers.contains(&worker));
    Spans::of(faults.map(|fault| (fault.from, fault.until + RECONNECT)))
}

struct Lock<'c> {
    case: &'c Case<'c>,
    ttl: u64,
    workers: HashSet<u32>,
    /// The greatest number of queue entries of one process: one for each limit.
    entries: usize,
    /// The spans in which a call that waited was not polled.
    aside: Vec<(u64, u64)>,
}

impl Lock<'_> {
    fn allowed(&self, from: u64, to: u64) -> u64 {
        let since = from.saturating_sub(GHOST);
        let mut faults = self.case.faults();
        let fault = faults.any(|fault| fault.from < to && fault.until > since);
        let mut workers = self.workers.iter();
        let stalled = workers.any(|worker| self.case.stalled(*worker, since, to) > FIRST / 10);
        let aside = self.aside.iter();
        let aside = aside.map(|(since, until)| (*until).min(to).saturating_sub(from.max(*since)));
        let aside: u64 = aside.map(|span| span.min(GRANT)).sum();
        if !fault && !stalled {
            return FIRST + aside + self.case.noise(from, to);
        }
        let gone = self.gone(from, to);
        let row = GRANT + (gone * self.entries) as u64 * EACH;
        let silent = if self.entries > 1 { SILENT } else { 0 };
        self.ttl + row + aside + silent + SECOND.max(self.case.noise(from, to))
    }

    /// Counts the processes that may have been granted the lock and could not take it.
    fn gone(&self, from: u64, to: u64) -> usize {
        let faults = self.case.history.faults.iter();
        let faults = faults.filter(|fault| match fault.kind {
            Kind::WorkerKilled | Kind::WorkerEnded => fault.from < to && fault.until + GHOST > from,
            Kind::WorkerStopped | Kind::RuntimeDropped => {
                fault.from < to && fault.until + GRANT > from
            }
            _ => fault.away && fault.from < to && fault.until + GRANT > from,
        });
        let left = faults.map(|fault| {
            let theirs = fault.workers.iter();
            let theirs = theirs.filter(|worker| self.workers.contains(worker));
            theirs.count() * if self.unheard(fault) { 2 } else { 1 }
        });
        left.sum()
    }

    /// Returns `true` if the killed process may have left two queue entries: the one it waited with, and one
    /// whose withdrawal did not reach the server.
    fn unheard(&self, killed: &Fault) -> bool {
        let mut faults = self.case.history.faults.iter();
        killed.kind == Kind::WorkerKilled
            && faults.any(|fault| {
                fault.away && fault.from < killed.until && fault.until + RECONNECT > killed.from
            })
    }
}
