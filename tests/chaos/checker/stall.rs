//! Nothing stays locked for nobody: as long as somebody waits, somebody else has the lock, or it is had soon.
//!
//! How soon, follows from how a lock comes free when its holder can't say so:
//! - its lease runs out, a ttl later at most;
//! - it may have been granted to a waiter that is gone or stopped, and is granted anew after 2 s; those that
//!   are gone behind that one cost 0.2 s each: each process that was killed or stopped while it may have
//!   stood in the queue, or twice where it may not have been heard before;
//! - if servers could not be had meanwhile that doesn't count, nor does the time that a connection may then
//!   take to be made anew.
//!
//! Where nothing has gone wrong for as long as a place in a queue lives, what counts is how often the first
//! in the queue asks.
//!
//! Where more is known of what goes wrong, a schedule may promise less than all that.
//!
//! A body that blocks its thread keeps others of its process from going on: that doesn't count either.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Call, Case, Rule, Spans, Verdict, millis};
use crate::event::Way;
use crate::fault::{Fault, Kind};

const SECOND: u64 = 1_000_000_000;
/// For how long a lock is granted at first.
const GRANT: u64 = 2 * SECOND;
/// What each waiter that is gone may cost beside that.
const EACH: u64 = SECOND / 5;
/// How often the first in a queue asks.
const FIRST: u64 = SECOND / 2;
/// How long one who has died may stand in a queue.
const GHOST: u64 = 50 * SECOND;
/// The default of `Config::connect_timeout`.
const RECONNECT: u64 = 2 * SECOND;
/// A process that does not run for less than that ends nobody's waiting, where a gap is promised.
const HICCUP: u64 = SECOND / 4;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    let mut of_key: BTreeMap<u32, Vec<&Call>> = BTreeMap::new();
    for call in &case.calls {
        of_key.entry(call.key).or_default().push(call);
    }
    // Workers that are cut off alone keep no others waiting.
    let faults = case.history.faults.iter().filter(|fault| fault.away);
    let faults = faults.filter(|fault| fault.workers.is_empty());
    let away = Spans::of(faults.map(|fault| (fault.from, fault.until + RECONNECT)));
    for (key, calls) in of_key {
        let lock = Lock {
            case,
            ttl: calls.iter().map(|call| call.ttl).max().unwrap_or(0),
            workers: calls.iter().map(|call| call.worker).collect(),
        };
        let promised = case.history.promises.gap;
        let hiccup = promised.map_or(0, |_| HICCUP);
        for (from, to) in for_nobody(case, &calls, hiccup).iter() {
            let gap = to - from - away.covered(from, to);
            verdict.longest_gap = verdict.longest_gap.max(gap);
            // Nearly all are shorter.
            let noise = case.noise(from, to);
            if promised.is_none() && gap <= FIRST + noise {
                continue;
            }
            let promised = promised.map(|gap| gap + case.noise.covered(from, to));
            let allowed = promised.unwrap_or_else(|| lock.allowed(from, to));
            if gap > allowed {
                let text = format!(
                    "nobody had key {key} for {} of the time from {} to {}, though somebody waited: \
                     no more than {} is right",
                    millis(gap),
                    case.when(from),
                    case.when(to),
                    millis(allowed)
                );
                verdict.broken(Rule::Stall, text);
            }
        }
    }
}

/// When somebody waited who could have gone on, but for hiccups, and nobody who could had it.
fn for_nobody(case: &Case<'_>, calls: &[&Call], hiccup: u64) -> Spans {
    let mut asked: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
    let mut waited: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
    let mut held: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
    for call in calls {
        let over = call.over();
        // Its killer came later than what it wrote.
        let until = call.began().map(|look| look.at).or(over);
        let span = (call.asked, until.unwrap_or(case.end));
        asked.entry(call.worker).or_default().push(span);
        if call.wait > 0 && call.way != Way::TriesOnce {
            waited.entry(call.worker).or_default().push(span);
        }
        if let Some(began) = call.began() {
            let last = call.looks.last().map_or(began.at, |look| look.at);
            held.entry(call.worker)
                .or_default()
                .push((began.at, over.unwrap_or(last).max(last)));
        }
    }
    let running = |spans: HashMap<u32, Vec<(u64, u64)>>, blocks: bool| {
        let running = spans.into_iter().flat_map(|(worker, spans)| {
            let mut spans = Spans::of(spans);
            if let Some(stalls) = case.stalls.get(&worker) {
                let long = |(from, to): &(u64, u64)| !blocks || to - from >= hiccup;
                spans = spans.minus(&Spans::of(stalls.iter().filter(long)));
            }
            if blocks {
                spans = spans.minus(&cut_off(case, worker));
            }
            if let Some(blocked) = case.blocked.get(&worker).filter(|_| blocks) {
                spans = spans.minus(blocked);
            }
            spans.iter().collect::<Vec<_>>()
        });
        Spans::of(running)
    };
    // Whoever is blocked may have been granted it, and keeps it until it can begin: a single try, too.
    let blocked = asked.iter().filter_map(|(worker, spans)| {
        let blocked = case.blocked.get(worker)?;
        let free = blocked.minus(&Spans::of(spans.iter().copied()));
        Some(blocked.minus(&free))
    });
    let blocked: Vec<Spans> = blocked.collect();
    let blocked = Spans::of(blocked.iter().flat_map(Spans::iter));
    running(waited, true)
        .minus(&running(held, false))
        .minus(&blocked)
}

/// When the worker alone could not reach the servers.
fn cut_off(case: &Case<'_>, worker: u32) -> Spans {
    let faults = case.history.faults.iter();
    let faults = faults.filter(|fault| fault.away && fault.workers.contains(&worker));
    Spans::of(faults.map(|fault| (fault.from, fault.until + RECONNECT)))
}

struct Lock<'c> {
    case: &'c Case<'c>,
    ttl: u64,
    workers: HashSet<u32>,
}

impl Lock<'_> {
    fn allowed(&self, from: u64, to: u64) -> u64 {
        let since = from.saturating_sub(GHOST);
        let mut faults = self.case.history.faults.iter();
        let fault = faults.any(|fault| fault.from < to && fault.until > since);
        let mut workers = self.workers.iter();
        let stalled = workers.any(|worker| self.case.stalled(*worker, since, to) > FIRST / 10);
        if !fault && !stalled {
            return FIRST + self.case.noise(from, to);
        }
        let gone = self.gone(from, to);
        let row = GRANT + gone as u64 * EACH;
        self.ttl + row + SECOND.max(self.case.noise(from, to))
    }

    /// Processes that may have been granted it and could not take it.
    fn gone(&self, from: u64, to: u64) -> usize {
        let faults = self.case.history.faults.iter();
        let faults = faults.filter(|fault| match fault.kind {
            Kind::WorkerKilled => fault.from < to && fault.until + GHOST > from,
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

    /// Whether whoever was killed may have left two places: one that it stood in, and one that it had given
    /// up without being heard.
    fn unheard(&self, killed: &Fault) -> bool {
        let mut faults = self.case.history.faults.iter();
        killed.kind == Kind::WorkerKilled
            && faults.any(|fault| {
                fault.away && fault.from < killed.until && fault.until + RECONNECT > killed.from
            })
    }
}
