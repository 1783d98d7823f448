//! Combines the members' messages to waiters.
//!
//! A member notifies the first claim in its queue when the lock is released there. The lock can be acquired
//! when a majority of the members that currently reply has notified the claim; a message from a single member
//! makes the claim poll somewhat sooner.

use crate::engine::event::{EngineEvent, EventHandler};
use crate::engine::redis::quorum::majority::majority;
use crate::engine::token::Token;
use crate::util::sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) struct ReleaseHints {
    handler: EventHandler,
    /// `true` for each member that has replied lately.
    reachable: Vec<AtomicBool>,
    /// For each waiting claim, the members that have notified it since it last polled.
    notified_by: Mutex<HashMap<Token, Vec<bool>>>,
}

impl ReleaseHints {
    pub(crate) fn new(members: usize, handler: EventHandler) -> Arc<ReleaseHints> {
        Arc::new(ReleaseHints {
            handler,
            reachable: (0..members).map(|_| AtomicBool::new(true)).collect(),
            notified_by: Mutex::default(),
        })
    }

    /// Returns the handler of that member's events.
    pub(crate) fn handler(self: &Arc<Self>, member: usize) -> EventHandler {
        let hints = self.clone();
        Arc::new(move |news| {
            let news = match news {
                EngineEvent::AtFront(token) => hints.record(member, token),
                // The lock may be free at this member only. Poll soon, not at once: other claims may be
                // holding an election.
                EngineEvent::MayBeFree(token) => Some(EngineEvent::AtFront(token)),
                // No member of a quorum grants a lock by itself.
                EngineEvent::Granted(_) => None,
                news => Some(news),
            };
            if let Some(news) = news {
                (hints.handler)(news);
            }
        })
    }

    pub(crate) fn set_reachable(&self, member: usize, reachable: bool) {
        self.reachable[member].store(reachable, Ordering::Relaxed);
    }

    /// Starts a poll of the claim. Returns `true` if enough members had notified it before.
    pub(crate) fn begin_poll(&self, token: Token) -> bool {
        let none = vec![false; self.reachable.len()];
        let notified_by = self.notified_by().insert(token, none);
        notified_by.is_some_and(|notified_by| count(&notified_by) >= self.threshold())
    }

    /// Removes a claim that no longer waits.
    pub(crate) fn remove(&self, token: Token) {
        self.notified_by().remove(&token);
    }

    fn record(&self, member: usize, token: Token) -> Option<EngineEvent> {
        let mut notified_by = self.notified_by();
        let notified_by = notified_by.get_mut(&token)?;
        if std::mem::replace(&mut notified_by[member], true) {
            return None;
        }
        match count(notified_by) {
            all if all == self.threshold() => Some(EngineEvent::MayBeFree(token)),
            1 => Some(EngineEvent::AtFront(token)),
            _ => None,
        }
    }

    fn threshold(&self) -> usize {
        let reachable = |reachable: &&AtomicBool| reachable.load(Ordering::Relaxed);
        majority(self.reachable.iter().filter(reachable).count())
    }

    fn notified_by(&self) -> MutexGuard<'_, HashMap<Token, Vec<bool>>> {
        self.notified_by.lock()
    }
}

fn count(notified_by: &[bool]) -> usize {
    notified_by
        .iter()
        .filter(|notified_by| **notified_by)
        .count()
}
