//! What became of each call.

use std::collections::HashMap;

use crate::event::{Event, How, Way, What};

#[derive(Clone, Debug)]
pub struct Call {
    pub worker: u32,
    pub number: u64,
    pub key: u32,
    pub way: Way,
    pub ttl: u64,
    pub wait: u64,
    pub asked: u64,
    /// Looks at the guard, the first one when the body began.
    pub looks: Vec<Look>,
    pub tokens: Vec<Token>,
    pub ended: Option<End>,
    /// When its runtime was gone, or its process was killed, before it had ended.
    pub cut_off: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub at: u64,
    pub boot: u64,
    pub left: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Token {
    pub asked: u64,
    pub had: u64,
    pub number: u64,
}

#[derive(Clone, Debug)]
pub struct End {
    pub at: u64,
    pub boot: u64,
    pub how: How,
}

impl Call {
    pub fn began(&self) -> Option<Look> {
        self.looks.first().copied()
    }

    /// The last look at which the lock was held.
    pub fn proof(&self) -> Option<Look> {
        self.looks.iter().rev().find(|look| look.left > 0).copied()
    }

    /// From when to when the lock was provably held.
    ///
    /// A body that went on after the last proof, until it found that the lease had run out, had not
    /// released the lock before: the lease that was proven last was its own to the end.
    pub fn held(&self) -> Option<(u64, u64)> {
        let begin = self.began().filter(|look| look.left > 0)?;
        let proof = self.proof()?;
        let after = self.looks.iter().find(|look| look.at > proof.at);
        let lost = match (&self.ended, after) {
            (_, Some(look)) => Some((look.at, look.boot)),
            // What is held by hand is released by hand, and may be found to be lost then.
            (Some(end), None) if end.how == How::Lost && !self.way.is_by_hand() => {
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
        Some((begin.at, end))
    }

    /// When the call was over, however it came.
    pub fn over(&self) -> Option<u64> {
        self.ended.as_ref().map(|end| end.at).or(self.cut_off)
    }

    pub fn how(&self) -> Option<&How> {
        self.ended.as_ref().map(|end| &end.how)
    }

    /// When it no longer waited.
    pub fn waited_until(&self) -> Option<u64> {
        self.began().map(|look| look.at).or(self.over())
    }

    /// Whether its body is cancelled when its lease is lost, as far as it lets itself.
    pub fn is_cancelled(&self) -> bool {
        self.way != Way::Continues && !self.way.is_by_hand()
    }

    pub fn name(&self) -> String {
        format!(
            "call {} of worker {} ({:?}, key {})",
            self.number, self.worker, self.way, self.key
        )
    }
}

/// Whether the clock that leases are measured with went as the other one.
fn steady(raw: u64, boot: u64) -> bool {
    raw.abs_diff(boot) <= raw / 1000 + 1_000_000
}

/// All calls, by when they were asked for, and what doesn't fit in any.
pub fn calls(events: &[&Event], killed: &HashMap<u32, u64>) -> (Vec<Call>, Vec<String>) {
    let mut calls: Vec<Call> = Vec::new();
    let mut known: HashMap<(u32, u64), usize> = HashMap::new();
    let mut unfinished: HashMap<u32, Vec<usize>> = HashMap::new();
    let mut odd = Vec::new();
    for event in events {
        let (worker, number) = (event.worker, event.call);
        match event.what {
            What::Asked {
                key,
                way,
                ttl,
                wait,
            } => {
                if known.insert((worker, number), calls.len()).is_some() {
                    odd.push(format!("worker {worker} has two calls {number}"));
                }
                unfinished.entry(worker).or_default().push(calls.len());
                calls.push(Call {
                    worker,
                    number,
                    key,
                    way,
                    ttl,
                    wait,
                    asked: event.at,
                    looks: Vec::new(),
                    tokens: Vec::new(),
                    ended: None,
                    cut_off: None,
                });
                continue;
            }
            What::RuntimeDropped => {
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
        let Some(call) = known.get(&(worker, number)).map(|call| &mut calls[*call]) else {
            odd.push(format!(
                "call {number} of worker {worker} was never asked for"
            ));
            continue;
        };
        if let Some(over) = call.over() {
            let late = (event.at - over) / 1_000_000;
            let what = &event.what;
            odd.push(format!(
                "{} had been over for {late} ms: {what:?}",
                call.name()
            ));
            continue;
        }
        match &event.what {
            What::Acquired { left } | What::Step { left } => call.looks.push(Look {
                at: event.at,
                boot: event.boot,
                left: *left,
            }),
            What::Token { asked, token } => call.tokens.push(Token {
                asked: *asked,
                had: event.at,
                number: *token,
            }),
            What::Ended { how } => {
                call.ended = Some(End {
                    at: event.at,
                    boot: event.boot,
                    how: how.clone(),
                });
                if let Some(unfinished) = unfinished.get_mut(&worker) {
                    unfinished.retain(|other| calls[*other].ended.is_none());
                }
            }
            _ => {}
        }
    }
    for call in &mut calls {
        if call.over().is_none()
            && let Some(at) = killed.get(&call.worker)
        {
            // It may have been as soon as that, and was later than what it wrote.
            let last = call.looks.last().map_or(call.asked, |look| look.at);
            call.cut_off = Some(last.max(*at));
        }
    }
    (calls, odd)
}
