//! Locks that somebody wanted back.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Keys, Kind};
use crate::journal::{Answer, Event, EventKind};

/// Which lock a worker is to revoke, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Demand {
    pub key: u32,
    /// From a holder in another process, which is awaited.
    pub elsewhere: bool,
    pub force: bool,
    pub grace_ms: u64,
    pub seed: u64,
}

/// A lock that a worker wanted back.
#[derive(Clone, Debug)]
pub struct Revocation {
    pub key: u32,
    /// From which holders.
    pub whom: Whom,
    pub force: bool,
    /// When they were seen.
    pub seen: u64,
    pub from: u64,
    /// When the answer came; `None` if the process ended before.
    pub until: Option<u64>,
    pub answer: Option<Answer>,
    /// The fencing token that a force has drawn.
    pub number: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Whom {
    Any,
    /// One of a worker's.
    Worker {
        worker: u32,
        /// It had the lock alone.
        exclusive: bool,
    },
    /// One of a client that is no worker.
    Other,
}

/// Requests of a force without an answer may be carried out this much later.
const LATE: u64 = 10_000_000_000;

/// Returns all locks that workers wanted back.
pub fn all(events: &[Event]) -> Vec<Revocation> {
    let mut processes = HashMap::new();
    let mut answers = HashMap::new();
    for event in events {
        match &event.what {
            EventKind::Connected { process } => {
                processes.insert(process.as_str(), event.worker);
            }
            EventKind::Revoked {
                since,
                answer,
                number,
            } => {
                answers.insert((event.worker, *since), (event.at, answer, *number));
            }
            _ => {}
        }
    }
    let revocation = |event: &Event| {
        let EventKind::Revokes {
            key,
            token,
            process,
            exclusive,
            force,
            seen,
            ..
        } = &event.what
        else {
            return None;
        };
        let worker = process
            .as_ref()
            .and_then(|process| processes.get(process.as_str()));
        let answered = answers.get(&(event.worker, event.at));
        Some(Revocation {
            key: *key,
            whom: match (token, worker) {
                (None, _) => Whom::Any,
                (Some(_), None) => Whom::Other,
                (Some(_), Some(worker)) => Whom::Worker {
                    worker: *worker,
                    exclusive: *exclusive,
                },
            },
            force: *force,
            seen: *seen,
            from: event.at,
            until: answered.map(|(at, ..)| *at),
            answer: answered.map(|(_, answer, _)| (*answer).clone()),
            number: answered.and_then(|(.., number)| *number),
        })
    };
    events.iter().filter_map(revocation).collect()
}

impl Revocation {
    /// Returns `true` if the worker may have been asked for the lock.
    pub fn hits(&self, worker: u32, key: u32) -> bool {
        let meant = match self.whom {
            Whom::Any => true,
            Whom::Worker { worker: meant, .. } => meant == worker,
            Whom::Other => false,
        };
        meant && self.key == key
    }

    /// Returns the fault that it is; `None` if nobody was asked.
    pub fn fault(&self) -> Option<Fault> {
        let (may_take, occurred) = match &self.answer {
            Some(Answer::NotHeld) => return None,
            Some(Answer::Stopped | Answer::Unconfirmed) => (false, true),
            Some(Answer::NotStopped) => (false, false),
            Some(Answer::Taken) => (true, true),
            Some(Answer::Failed(_)) | None => (true, false),
        };
        let may_take = may_take && self.force && self.whom != Whom::Other;
        let late = if may_take && !occurred { LATE } else { 0 };
        Some(Fault {
            kind: if self.force { Kind::Force } else { Kind::Ask },
            target: format!("key {}, from {:?}", self.key, self.whom),
            from: self.from,
            until: self.until.unwrap_or(self.from) + late,
            workers: match self.whom {
                Whom::Worker { worker, .. } => vec![worker],
                Whom::Any | Whom::Other => Vec::new(),
            },
            forgotten: may_take.then_some(Keys::One(self.key)),
            away: false,
            vain: !occurred,
        })
    }
}
