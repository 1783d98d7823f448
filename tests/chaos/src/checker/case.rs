//! A history, indexed for the rules.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::wait_bounds::COMMAND_TIMEOUT;
use super::{Call, Spans, call};
use crate::fault::{Fault, FaultTarget, Keys, Kind};
use crate::history::History;
use crate::journal::{CallKind, EventKind};
use crate::revocation::{self, Revocation};

pub struct Case<'h> {
    pub history: &'h History,
    /// In the order in which they were made.
    pub calls: Vec<Call>,
    /// Events that belong to no call, or follow its end.
    pub odd: Vec<String>,
    /// The calls of each key whose bodies began, in the order in which the bodies began.
    pub by_key: BTreeMap<u32, Vec<usize>>,
    /// The spans in which each worker's process did not run.
    pub stalls: HashMap<u32, Spans>,
    /// The spans in which any process did not run although the harness had not stopped it.
    pub noise: Spans,
    /// The spans in which a body blocked threads of a worker.
    pub blocked: HashMap<u32, Spans>,
    pub killed: HashMap<u32, u64>,
    /// The locks that somebody wanted back.
    pub revocations: Vec<Revocation>,
    /// The time of the first event and of the last.
    pub start: u64,
    pub end: u64,
}

impl<'h> Case<'h> {
    pub fn new(history: &'h History) -> Self {
        let mut events: Vec<_> = history.events.iter().collect();
        events.sort_by_key(|event| event.at);
        let mut stalls: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
        let mut blocked: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
        let mut blocking = HashSet::new();
        let mut noise = Vec::new();
        let mut killed = HashMap::new();
        for fault in &history.faults {
            for worker in &fault.workers {
                match fault.kind {
                    Kind::WorkerKilled => {
                        killed.insert(*worker, fault.from);
                    }
                    Kind::WorkerStopped => {
                        let stop = (fault.from, fault.until);
                        stalls.entry(*worker).or_default().push(stop);
                    }
                    _ => {}
                }
            }
        }
        for event in &events {
            if let EventKind::Stalled { for_ } = event.what {
                let stall = (event.at.saturating_sub(for_), event.at);
                let stopped = |fault: &&Fault| {
                    fault.kind == Kind::WorkerStopped && fault.workers.contains(&event.worker)
                };
                let mut stops = history.faults.iter().filter(stopped);
                if stops.all(|stop| stall.1 < stop.from || stop.until < stall.0) {
                    noise.push(stall);
                }
                stalls.entry(event.worker).or_default().push(stall);
            }
            match event.what {
                EventKind::Blocks => {
                    blocking.insert((event.worker, event.at));
                }
                EventKind::Blocked { for_ } => {
                    let from = event.at.saturating_sub(for_);
                    blocking.remove(&(event.worker, from));
                    blocked
                        .entry(event.worker)
                        .or_default()
                        .push((from, event.at));
                }
                _ => {}
            }
        }
        for (worker, from) in blocking {
            // The process was killed meanwhile.
            let until = killed.get(&worker).copied().unwrap_or(u64::MAX);
            blocked.entry(worker).or_default().push((from, until));
        }
        let (calls, odd) = call::calls(&events, &killed);
        let mut by_key: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (number, call) in calls.iter().enumerate() {
            let Some(began) = call.began() else {
                continue;
            };
            by_key.entry(call.key).or_default().push(number);
            if call.kind == CallKind::Blocks {
                let until = call.over().unwrap_or(u64::MAX);
                blocked
                    .entry(call.worker)
                    .or_default()
                    .push((began.at, until));
            }
        }
        for holds in by_key.values_mut() {
            holds.sort_by_key(|hold| calls[*hold].began().map(|look| look.at));
        }
        let merge = |spans: HashMap<u32, Vec<(u64, u64)>>| {
            let spans = spans.into_iter();
            spans.map(|(worker, spans)| (worker, Spans::of(spans)))
        };
        Self {
            history,
            odd,
            by_key,
            stalls: merge(stalls).collect(),
            noise: Spans::of(noise),
            blocked: merge(blocked).collect(),
            killed,
            revocations: revocation::all(&history.events),
            start: events.first().map_or(0, |event| event.at),
            end: events.last().map_or(0, |event| event.at),
            calls,
        }
    }

    pub fn holds(&self) -> impl Iterator<Item = &Call> {
        let holds = self.by_key.values().flatten();
        holds.map(|hold| &self.calls[*hold])
    }

    /// Returns the holds of each key in the order in which they began.
    pub fn by_key(&self) -> impl Iterator<Item = (u32, impl Iterator<Item = &Call> + Clone)> {
        let calls = |holds: &'_ Vec<usize>| holds.clone().into_iter().map(|hold| &self.calls[hold]);
        self.by_key
            .iter()
            .map(move |(key, holds)| (*key, calls(holds)))
    }

    /// Returns the delay that a busy machine may have added between `from` and `to`: [`NOISE`], and the time
    /// for which a process did not run.
    pub fn noise(&self, from: u64, to: u64) -> u64 {
        NOISE + self.noise.covered(from, to)
    }

    /// Returns how long the worker's process did not run between `from` and `to`.
    pub fn stalled(&self, worker: u32, from: u64, to: u64) -> u64 {
        let stalls = self.stalls.get(&worker);
        stalls.map_or(0, |stalls| stalls.covered(from, to))
    }

    /// Returns the longest time that a single process did not run between `from` and `to`.
    pub fn stalled_most(&self, from: u64, to: u64) -> u64 {
        let stalls = self.stalls.values();
        let stalls = stalls.map(|stalls| stalls.covered(from, to));
        stalls.max().unwrap_or(0)
    }

    /// Returns `true` if the worker's machine slept before `by`: its clocks then differ from those of others.
    pub fn slept(&self, worker: u32, by: u64) -> bool {
        let mut faults = self.history.faults.iter();
        faults.any(|fault| {
            fault.kind == Kind::ClockStepped && fault.workers.contains(&worker) && fault.from < by
        })
    }

    /// Returns how long the worker's threads may have been blocked between `from` and `to`.
    pub fn blocked(&self, worker: u32, from: u64, to: u64) -> u64 {
        let blocked = self.blocked.get(&worker);
        blocked.map_or(0, |blocked| blocked.covered(from, to))
    }

    /// Returns the faults that may have made servers lose the lock `key`.
    pub fn forgetting(&self, key: u32) -> impl Iterator<Item = &Fault> {
        let covers = move |fault: &&Fault| match fault.forgotten {
            Some(Keys::All) => true,
            Some(Keys::One(one)) => one == key,
            None => false,
        };
        self.history.faults.iter().filter(covers)
    }

    /// Returns those that may have taken the call's lock away.
    pub fn taking(&self, call: &Call) -> impl Iterator<Item = &Fault> {
        let worker = call.worker;
        let faults = self.forgetting(call.key);
        faults.filter(move |fault| fault.takes_from(worker))
    }

    /// Returns the faults of all kinds but asks and forces, which are no reason for anything but the loss of
    /// that lock.
    pub fn faults(&self) -> impl Iterator<Item = &Fault> {
        let faults = self.history.faults.iter();
        faults.filter(|fault| fault.kind.target() != FaultTarget::Holder)
    }

    /// Returns `true` if the call may have been asked for a lock by then.
    pub fn was_asked(&self, call: &Call, by: u64) -> bool {
        self.revocations.iter().any(|revocation| {
            let mut keys = call.keys.iter();
            revocation.from < by && keys.any(|key| revocation.hits(call.worker, *key))
        })
    }

    /// Returns for how long a call that lost its lock by the fault may continue, to `end`. Its next renewal
    /// finds a lock that was taken by force.
    pub fn unaware(&self, fault: &Fault, call: &Call, end: u64) -> u64 {
        let stalled =
            self.stalled(call.worker, fault.from, end) + self.blocked(call.worker, fault.from, end);
        let renews = fault.kind == Kind::Force
            && call.kind != CallKind::Unrenewed
            && stalled == 0
            && self
                .faults()
                .all(|other| other.until + RENEWED < fault.from || end < other.from);
        match renews {
            true => call
                .ttl
                .min(call.ttl / 3 + COMMAND_TIMEOUT + self.noise(fault.from, end)),
            false => call.ttl,
        }
    }

    /// Returns `true` if `worker` held the lock `key` during the fault, kept it, or was granted it by then: a
    /// reply may be late.
    pub fn held_by(&self, worker: u32, key: u32, fault: &Fault) -> bool {
        let calls = self.by_key.get(&key).into_iter().flatten();
        let mut theirs = calls
            .map(|call| &self.calls[*call])
            .filter(|call| call.worker == worker);
        theirs.any(|call| {
            let called = call.called < fault.until;
            called && call.kept_until().is_none_or(|until| until > fault.from)
        })
    }

    /// Counts the holds whose call waited while another worker held the lock.
    pub fn hand_offs(&self) -> usize {
        let mut count = 0;
        for (_, holds) in self.by_key() {
            let passes = holds.clone().zip(holds.skip(1));
            let waited = |(before, next): &(&Call, &Call)| {
                let until = before.over().or(before.proof().map(|look| look.at));
                before.worker != next.worker && until.is_some_and(|until| next.called < until)
            };
            count += passes.filter(waited).count();
        }
        count
    }

    /// Formats `at` as milliseconds since the start, for messages.
    pub fn when(&self, at: u64) -> String {
        format!("{:.1} ms", at.saturating_sub(self.start) as f64 / 1e6)
    }
}

/// The delay that a busy machine may add to any measured time.
const NOISE: u64 = 800_000_000;

/// How long after another fault connections may still be made anew.
const RENEWED: u64 = 3_000_000_000;
