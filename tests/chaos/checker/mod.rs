//! Looks at what happened, and says what must not have.
//!
//! Each promise is a rule, in a file of its own. They share one clock: a look at a guard is stamped before
//! it is taken, so that what it found was so at the stamp.

mod book;
mod call;
mod deadline;
mod exclusion;
mod hit;
mod left;
mod loss;
mod order;
mod progress;
mod span;
mod stall;
mod tokens;
mod waits;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::event::What;
use crate::fault::{Fault, Keys, Kind};
use crate::history::History;
pub use call::Call;
pub use span::Spans;

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Two never provably hold one lock.
    Exclusion,
    /// A body goes no further than the next await once its lease has run out.
    Deadline,
    /// A loss is noticed, in time, and has a cause.
    Loss,
    /// Fencing tokens grow.
    Tokens,
    /// A resource that compares them takes no stale write.
    Book,
    /// Waiters are served in order of arrival.
    Order,
    /// Nobody waits for longer than allowed.
    Waits,
    /// Nothing stays locked for nobody.
    Stall,
    /// Nothing is left behind.
    Left,
    /// Everybody comes to an end, and enough happens.
    Progress,
}

#[derive(Clone, Debug)]
pub struct Violation {
    pub rule: Rule,
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.text)
    }
}

/// What came of a schedule. All durations are in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    pub violations: Vec<Violation>,
    pub calls: usize,
    /// Bodies that began.
    pub holds: usize,
    /// Those that were waited for while another worker had the lock.
    pub hand_offs: usize,
    /// Two held one lock since a server had forgotten it.
    pub double_holds: usize,
    pub longest_double_hold: u64,
    /// Steps of a body at which its lease had run out, and which no await could stop.
    pub late_steps: usize,
    /// Losses that were noticed, and, for each by which a body was cancelled and of which the lease's end is
    /// known, for how long the process had run since then.
    pub lost: usize,
    pub losses: Vec<u64>,
    pub tokens: usize,
    pub writes: usize,
    /// Writes that were refused since their token was too old.
    pub refused: usize,
    /// Writes that were taken though a later one had been before.
    pub stale: usize,
    /// Writes that undid another.
    pub lost_updates: usize,
    /// Callers whose place in line was looked at.
    pub in_line: usize,
    /// The longest time for which nobody held a lock that somebody waited for, though it could be had.
    pub longest_gap: u64,
    /// Of what befell processes, how much hit one that held a lock, and how much one that waited.
    pub hit: (usize, usize),
    /// By how much a wait was longer than allowed, at most.
    pub longest_over: u64,
}

impl Verdict {
    fn broken(&mut self, rule: Rule, text: String) {
        self.violations.push(Violation { rule, text });
    }

    #[cfg(test)]
    fn breaks(&self, rule: Rule) -> bool {
        self.violations.iter().any(|found| found.rule == rule)
    }
}

pub fn check(history: &History) -> Verdict {
    let case = Case::new(history);
    let mut verdict = Verdict {
        calls: case.calls.len(),
        holds: case.holds().count(),
        hand_offs: case.hand_offs(),
        ..Verdict::default()
    };
    let rules = [
        exclusion::check,
        hit::check,
        deadline::check,
        loss::check,
        tokens::check,
        book::check,
        order::check,
        waits::check,
        stall::check,
        left::check,
        progress::check,
    ];
    for rule in rules {
        rule(&case, &mut verdict);
    }
    verdict
}

/// A history, looked up.
pub struct Case<'h> {
    pub history: &'h History,
    /// By when they were asked for.
    pub calls: Vec<Call>,
    /// Events that belong to no call, or come after its end.
    odd: Vec<String>,
    /// The calls of each key whose bodies began, by when they did.
    by_key: BTreeMap<u32, Vec<usize>>,
    /// When each worker's process did not run.
    stalls: HashMap<u32, Spans>,
    /// When any process did not run that nobody had stopped.
    noise: Spans,
    /// When threads of a worker were blocked by a body.
    blocked: HashMap<u32, Spans>,
    killed: HashMap<u32, u64>,
    /// When it began and ended.
    pub start: u64,
    pub end: u64,
}

impl<'h> Case<'h> {
    pub fn new(history: &'h History) -> Self {
        let mut events: Vec<_> = history.events.iter().collect();
        events.sort_by_key(|event| event.at);
        let mut stalls: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
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
            if let What::Stalled { for_ } = event.what {
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
        }
        let (calls, odd) = call::calls(&events, &killed);
        let mut by_key: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        let mut blocked: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
        for (number, call) in calls.iter().enumerate() {
            let Some(began) = call.began() else {
                continue;
            };
            by_key.entry(call.key).or_default().push(number);
            if call.way == crate::event::Way::Blocks {
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
            start: events.first().map_or(0, |event| event.at),
            end: events.last().map_or(0, |event| event.at),
            calls,
        }
    }

    pub fn holds(&self) -> impl Iterator<Item = &Call> {
        let holds = self.by_key.values().flatten();
        holds.map(|hold| &self.calls[*hold])
    }

    /// The holds of each key, by when they began.
    pub fn by_key(&self) -> impl Iterator<Item = (u32, impl Iterator<Item = &Call> + Clone)> {
        let calls = |holds: &'_ Vec<usize>| holds.clone().into_iter().map(|hold| &self.calls[hold]);
        self.by_key
            .iter()
            .map(move |(key, holds)| (*key, calls(holds)))
    }

    /// When its process was killed, if it was.
    pub fn killed(&self, worker: u32) -> Option<u64> {
        self.killed.get(&worker).copied()
    }

    /// What a busy machine may have added to any time between those two: more where some process has been
    /// kept from running.
    pub fn noise(&self, from: u64, to: u64) -> u64 {
        NOISE + self.noise.covered(from, to)
    }

    /// For how long the worker's process did not run between those two.
    pub fn stalled(&self, worker: u32, from: u64, to: u64) -> u64 {
        let stalls = self.stalls.get(&worker);
        stalls.map_or(0, |stalls| stalls.covered(from, to))
    }

    /// For how long its threads may have been blocked between those two.
    pub fn blocked(&self, worker: u32, from: u64, to: u64) -> u64 {
        let blocked = self.blocked.get(&worker);
        blocked.map_or(0, |blocked| blocked.covered(from, to))
    }

    /// Faults by which servers may have forgotten that lock.
    pub fn forgetting(&self, key: u32) -> impl Iterator<Item = &Fault> {
        let covers = move |fault: &&Fault| match fault.forgotten {
            Some(Keys::All) => true,
            Some(Keys::One(one)) => one == key,
            None => false,
        };
        self.history.faults.iter().filter(covers)
    }

    /// Whether a worker had that lock during the fault.
    fn held_by(&self, worker: u32, key: u32, fault: &Fault) -> bool {
        let calls = self.by_key.get(&key).into_iter().flatten();
        let mut theirs = calls
            .map(|call| &self.calls[*call])
            .filter(|call| call.worker == worker);
        theirs.any(|call| {
            let began = call.began().is_some_and(|look| look.at < fault.until);
            began && call.over().is_none_or(|over| over > fault.from)
        })
    }

    /// Holds that somebody waited for while another worker had the lock.
    fn hand_offs(&self) -> usize {
        let mut count = 0;
        for (_, holds) in self.by_key() {
            let passes = holds.clone().zip(holds.skip(1));
            let waited = |(before, next): &(&Call, &Call)| {
                let until = before.over().or(before.proof().map(|look| look.at));
                before.worker != next.worker && until.is_some_and(|until| next.asked < until)
            };
            count += passes.filter(waited).count();
        }
        count
    }

    /// Milliseconds since it began, to be read.
    pub fn when(&self, at: u64) -> String {
        format!("{:.1} ms", at.saturating_sub(self.start) as f64 / 1e6)
    }
}

/// What a busy machine may add to any time.
const NOISE: u64 = 800_000_000;

fn millis(nanos: u64) -> String {
    format!("{:.1} ms", nanos as f64 / 1e6)
}

#[cfg(test)]
pub mod tests;
