//! What members tell those who wait.
//!
//! A member tells the first in its queue when a lock is freed there. A lock can be had when a majority
//! of those members that answer at present has told so; what one member tells makes the claim ask
//! somewhat sooner.

use crate::engine::event::{EngineEvent, EventHandler};
use crate::engine::quorum::majority::majority;
use crate::engine::token::Token;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) struct ReleaseHints {
    handler: EventHandler,
    /// Whether each member has answered lately.
    reachable: Vec<AtomicBool>,
    /// For each claim that waits, which members have told it since it asked.
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

    /// Where that member's news goes.
    pub(crate) fn handler(self: &Arc<Self>, member: usize) -> EventHandler {
        let hints = self.clone();
        Arc::new(move |news| {
            let news = match news {
                EngineEvent::AtFront(token) => hints.record(member, token),
                // It may be free at that member only: soon enough is when others have been elected.
                EngineEvent::MayBeFree(token) => Some(EngineEvent::AtFront(token)),
                // The others tell as well, and it is asked again before long.
                EngineEvent::Resubscribed => None,
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

    /// The claim asks now. Whether it has been told by enough members before.
    pub(crate) fn begin_poll(&self, token: Token) -> bool {
        let none = vec![false; self.reachable.len()];
        let notified_by = self.notified_by().insert(token, none);
        notified_by.is_some_and(|notified_by| count(&notified_by) >= self.threshold())
    }

    /// The claim waits no more.
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
        self.notified_by
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn count(notified_by: &[bool]) -> usize {
    notified_by
        .iter()
        .filter(|notified_by| **notified_by)
        .count()
}
