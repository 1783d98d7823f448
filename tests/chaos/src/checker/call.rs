//! The calls of a history, each with its result.

use std::collections::HashMap;
use std::sync::Arc;

use super::Spans;
use crate::journal::{CallKind, Event, EventKind, Outcome};

/// A call for one key. A call for several keys is one for each of them; a call that downgrades its lock is
/// two.
#[derive(Clone, Debug)]
pub struct Call {
    pub worker: u32,
    pub number: u64,
    pub key: u32,
    /// All keys of the call.
    pub keys: Arc<[u32]>,
    pub kind: CallKind,
    /// It leaves the lock to its process, which may keep it.
    pub lazy: bool,
    pub ttl: u64,
    pub wait: u64,
    pub called: u64,
    /// The readings of the guard; the first was taken when the body began.
    pub looks: Vec<Look>,
    pub tokens: Vec<Token>,
    /// The spans in which the call, which waited, was not polled.
    pub aside: Spans,
    pub ended: Option<End>,
    /// The time at which its runtime was dropped or its process killed, if the call had not ended by then.
    pub cut_off: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub at: u64,
    pub boot: u64,
    pub left: u64,
    /// It is asked for its lock, and holds it.
    pub asked: bool,
}

impl Look {
    pub fn is_held(&self) -> bool {
        self.left > 0 || self.asked
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Token {
    pub requested: u64,
    pub had: u64,
    pub number: u64,
}

#[derive(Clone, Debug)]
pub struct End {
    pub at: u64,
    pub boot: u64,
    pub outcome: Outcome,
}

impl Call {
    pub fn began(&self) -> Option<Look> {
        self.looks.first().copied()
    }

    /// Returns the last reading at which the lock was held.
    pub fn proof(&self) -> Option<Look> {
        self.looks.iter().rev().find(|look| look.is_held()).copied()
    }

    /// Returns the span for which the lock was provably held. A downgrade leaves no moment without a holder.
    ///
    /// A body that continued after the last proof and then found that the lease had run out had not released
    /// the lock before. The lease that was proven last was therefore valid to its end.
    pub fn held(&self) -> Option<(u64, u64)> {
        let begin = self.began().filter(Look::is_held)?;
        let proof = self.proof()?;
        let after = self.looks.iter().find(|look| look.at > proof.at);
        let lost = match (&self.ended, after) {
            (_, Some(look)) => Some((look.at, look.boot)),
            // A release may be what reports the loss, or what follows it: of locks of other keys.
            (Some(end), None)
                if end.outcome == Outcome::Lost
                    && !self.kind.is_released_by_hand()
                    && self.keys.len() == 1 =>
            {
                Some((end.at, end.boot))
            }
            _ => None,
        };
        let end = match lost {
            Some((at, boot)) if steady(at - proof.at, boot.abs_diff(proof.boot)) => {
                at.min(proof.at + proof.left)
            }
            _ => proof.at,
        };
        let begin = match self.kind {
            CallKind::Downgraded => self.called,
            _ => begin.at,
        };
        Some((begin, end))
    }

    /// Returns the time at which the call was over, in whatever way.
    pub fn over(&self) -> Option<u64> {
        self.ended.as_ref().map(|end| end.at).or(self.cut_off)
    }

    /// Returns the time until which its process may keep the lock: a third of the ttl after it was granted,
    /// at the latest.
    pub fn kept_until(&self) -> Option<u64> {
        let tenure = if self.lazy { self.ttl / 3 } else { 0 };
        Some(self.over()?.saturating_add(tenure))
    }

    pub fn outcome(&self) -> Option<&Outcome> {
        self.ended.as_ref().map(|end| &end.outcome)
    }

    /// Returns the time at which the call stopped waiting.
    pub fn waited_until(&self) -> Option<u64> {
        self.began().map(|look| look.at).or(self.over())
    }

    /// Returns `true` if the loss of the lease cancels the body at its next await.
    pub fn is_cancelled(&self) -> bool {
        self.kind != CallKind::Continues && !self.kind.is_by_hand()
    }

    /// Ends the exclusive part of the call at `at`. Returns the part in which it shares the lock.
    fn downgrade(&mut self, at: u64, boot: u64) -> Self {
        let reader = Self {
            kind: CallKind::Downgraded,
            lazy: false,
            called: at,
            // The request has to be answered within the lease.
            wait: self.ttl,
            looks: Vec::new(),
            tokens: Vec::new(),
            ..self.clone()
        };
        self.ended.get_or_insert(End {
            at,
            boot,
            outcome: Outcome::Done,
        });
        reader
    }

    /// Records an event of the call. Returns an error if the call had ended before.
    fn record(&mut self, event: &Event) -> Option<String> {
        if let Some(over) = self.over() {
            let late = (event.at - over) / 1_000_000;
            return Some(format!(
                "{} had ended {late} ms before {:?}",
                self.name(),
                event.what
            ));
        }
        match &event.what {
            EventKind::Acquired { left }
            | EventKind::Step { left }
            | EventKind::Downgraded { left, .. } => self.looks.push(Look {
                at: event.at,
                boot: event.boot,
                left: *left,
                asked: false,
            }),
            EventKind::Asked => {
                if let Some(look) = self.looks.last_mut() {
                    look.asked = true;
                }
            }
            EventKind::Token { requested, token } => self.tokens.push(Token {
                requested: *requested,
                had: event.at,
                number: *token,
            }),
            EventKind::SetAside => self.aside = Spans::of([(event.at, u64::MAX)]),
            EventKind::TakenUp => {
                let after = Spans::of([(event.at, u64::MAX)]);
                self.aside = self.aside.minus(&after);
            }
            EventKind::Ended { outcome } => {
                self.ended = Some(End {
                    at: event.at,
                    boot: event.boot,
                    outcome: outcome.clone(),
                });
            }
            _ => {}
        }
        None
    }

    pub fn name(&self) -> String {
        format!(
            "call {} of worker {} ({:?}, key {})",
            self.number, self.worker, self.kind, self.key
        )
    }
}

/// Returns `true` if the clock that measures leases advanced at the rate of the other one.
fn steady(raw: u64, boot: u64) -> bool {
    raw.abs_diff(boot) <= raw / 1000 + 1_000_000
}

/// Returns all calls in the order in which they were made, and the events that fit no call.
pub fn calls(events: &[&Event], killed: &HashMap<u32, u64>) -> (Vec<Call>, Vec<String>) {
    let mut calls: Vec<Call> = Vec::new();
    // One for each key.
    let mut known: HashMap<(u32, u64), Vec<usize>> = HashMap::new();
    let mut unfinished: HashMap<u32, Vec<usize>> = HashMap::new();
    let mut odd = Vec::new();
    for event in events {
        let (worker, number) = (event.worker, event.call);
        match &event.what {
            EventKind::Called {
                key,
                others,
                kind,
                lazy,
                ttl,
                wait,
            } => {
                let keys: Arc<[u32]> = std::iter::once(key).chain(others).copied().collect();
                let first = calls.len();
                calls.extend(keys.iter().map(|key| Call {
                    worker,
                    number,
                    key: *key,
                    keys: keys.clone(),
                    kind: *kind,
                    lazy: *lazy,
                    ttl: *ttl,
                    wait: *wait,
                    called: event.at,
                    looks: Vec::new(),
                    tokens: Vec::new(),
                    aside: Spans::default(),
                    ended: None,
                    cut_off: None,
                }));
                let all: Vec<usize> = (first..calls.len()).collect();
                unfinished.entry(worker).or_default().extend(&all);
                if known.insert((worker, number), all).is_some() {
                    odd.push(format!("worker {worker} has two calls {number}"));
                }
                continue;
            }
            EventKind::RuntimeDropped => {
                for call in unfinished.remove(&worker).unwrap_or_default() {
                    if calls[call].ended.is_none() {
                        calls[call].cut_off = Some(event.at);
                    }
                }
                continue;
            }
            _ if number == 0 => continue,
            _ => {}
        }
        let Some(all) = known.get_mut(&(worker, number)) else {
            odd.push(format!("call {number} of worker {worker} was never made"));
            continue;
        };
        if let EventKind::Downgraded { requested, .. } = event.what {
            for call in &mut *all {
                let reader = calls[*call].downgrade(requested, event.boot);
                *call = calls.len();
                calls.push(reader);
            }
            unfinished.entry(worker).or_default().extend(&*all);
        }
        for call in all {
            odd.extend(calls[*call].record(event));
        }
        if let EventKind::Ended { .. } = event.what
            && let Some(unfinished) = unfinished.get_mut(&worker)
        {
            unfinished.retain(|other| calls[*other].ended.is_none());
        }
    }
    for call in &mut calls {
        if call.over().is_none()
            && let Some(at) = killed.get(&call.worker)
        {
            // The kill may have happened as early as `at`, but happened after the last recorded event.
            let last = call.looks.last().map_or(call.called, |look| look.at);
            call.cut_off = Some(last.max(*at));
        }
    }
    (calls, odd)
}
