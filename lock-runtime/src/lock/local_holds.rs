//! How this process has one lock: by the holds of its guards, and without a guard.

use crate::engine::token::Token;
use crate::limit::Limit;
use crate::lock::hold::Hold;
use crate::lock::record::kept::KeptRecord;
use std::sync::{Arc, Weak};
use tokio::sync::Notify;

/// The holds of one lock.
#[derive(Default)]
pub(crate) struct LocalHolds {
    first: Option<LocalHold>,
    /// Those that share the lock with the first one, and those that are lost or retained.
    further: Vec<LocalHold>,
}

struct LocalHold {
    token: Token,
    /// The watchdog owns it as long as it has a lease.
    hold: Weak<Hold>,
    stage: Stage,
}

/// How the process has the lock by one hold.
enum Stage {
    /// A guard has it.
    Held,
    /// Guards have it, and other readers may join them.
    Shared,
    /// It is kept for the next call.
    Kept(KeptRecord),
    /// Its `min_hold` goes on without a guard, until this is notified.
    Retained(Arc<Notify>),
    /// The lease is lost, and the body may still run.
    Lost,
}

/// A lock that was kept until now: to be resumed or given back, when no mutex is locked.
#[must_use]
pub(crate) struct Kept {
    pub(crate) hold: Arc<Hold>,
    _record: KeptRecord,
}

impl LocalHold {
    /// Returns `true` if a guard has the lock, or the next call may have it.
    fn is_valid(&self) -> bool {
        matches!(self.stage, Stage::Held | Stage::Shared | Stage::Kept(_))
    }

    fn excludes(&self, limit: Limit) -> bool {
        limit.is_exclusive() || self.token.limit().is_exclusive()
    }
}

impl LocalHolds {
    pub(crate) fn add(&mut self, hold: &Arc<Hold>) {
        self.insert(LocalHold {
            token: hold.token(),
            hold: Arc::downgrade(hold),
            stage: Stage::Held,
        });
    }

    /// Adds a lock whose guard has ended, but not its `min_hold`. Returns what is notified if that is to end
    /// now.
    pub(crate) fn retain(&mut self, token: Token) -> Arc<Notify> {
        let end = Arc::new(Notify::new());
        self.insert(LocalHold {
            token,
            hold: Weak::new(),
            stage: Stage::Retained(end.clone()),
        });
        end
    }

    fn insert(&mut self, hold: LocalHold) {
        match self.first {
            None => self.first = Some(hold),
            Some(_) => self.further.push(hold),
        }
    }

    /// Removes the hold with that token. Returns `true` if it was valid.
    pub(crate) fn remove(&mut self, token: Token) -> bool {
        let removed = match &self.first {
            Some(first) if first.token == token => {
                std::mem::replace(&mut self.first, self.further.pop())
            }
            _ => {
                let at = self.further.iter().position(|hold| hold.token == token);
                at.map(|at| self.further.swap_remove(at))
            }
        };
        removed.is_some_and(|hold| hold.is_valid())
    }

    /// Records that the lease of the hold with that token is lost. Returns `true` if it was valid.
    pub(crate) fn lose(&mut self, token: Token) -> bool {
        let hold = self.get(token).filter(|hold| hold.is_valid());
        hold.map(|hold| hold.stage = Stage::Lost).is_some()
    }

    /// Lets readers join the hold with that token.
    pub(crate) fn share(&mut self, token: Token) {
        if let Some(hold) = self.get(token).filter(|hold| hold.is_valid()) {
            hold.stage = Stage::Shared;
        }
    }

    /// Returns a hold that readers may join.
    pub(crate) fn shared(&self) -> Option<Arc<Hold>> {
        let is_shared = |hold: &&LocalHold| matches!(hold.stage, Stage::Shared);
        let latest = self.iter().filter(is_shared).last()?;
        latest.hold.upgrade()
    }

    pub(crate) fn keep(&mut self, token: Token, record: KeptRecord) {
        if let Some(hold) = self.get(token) {
            hold.stage = Stage::Kept(record);
        }
    }

    /// Returns `true` if the lock that is held with that token is kept, or may be.
    pub(crate) fn may_be_kept(&self, token: Token) -> bool {
        let hold = self.iter().find(|hold| hold.token == token);
        let hold = hold.and_then(|hold| hold.hold.upgrade());
        hold.is_some_and(|hold| hold.is_in_tenure())
    }

    pub(crate) fn are_kept(&self) -> bool {
        self.iter().any(|hold| matches!(hold.stage, Stage::Kept(_)))
    }

    /// Keeps the lock no longer: if it is kept with that token, or whatever the token.
    pub(crate) fn take_kept(&mut self, token: Option<Token>) -> Option<Kept> {
        let is_kept = |hold: &&mut LocalHold| matches!(hold.stage, Stage::Kept(_));
        let hold = self.iter_mut().find(is_kept)?;
        if token.is_some_and(|token| token != hold.token) {
            return None;
        }
        let kept = hold.hold.upgrade()?;
        match std::mem::replace(&mut hold.stage, Stage::Held) {
            Stage::Kept(record) => Some(Kept {
                hold: kept,
                _record: record,
            }),
            _ => None,
        }
    }

    /// Ends the `min_hold` of the lock that is retained with that token. Returns `false` if none is.
    pub(crate) fn end_retained(&mut self, token: Token) -> bool {
        match self.get(token).map(|hold| &hold.stage) {
            Some(Stage::Retained(end)) => {
                end.notify_one();
                true
            }
            _ => false,
        }
    }

    /// Returns the holds whose bodies may run, and that which is kept.
    pub(crate) fn all(&self) -> Vec<Arc<Hold>> {
        self.iter().filter_map(|hold| hold.hold.upgrade()).collect()
    }

    /// Returns the tokens of the valid holds.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = Token> {
        let valid = self.iter().filter(|hold| hold.is_valid());
        valid.map(|hold| hold.token)
    }

    /// Returns `true` if any is valid.
    pub(crate) fn are_any(&self) -> bool {
        self.tokens().next().is_some()
    }

    /// Returns `true` if that of this token is valid.
    pub(crate) fn has(&self, token: Token) -> bool {
        self.tokens().any(|valid| valid == token)
    }

    /// Returns `true` if a valid one is in the way of every other one with that limit.
    pub(crate) fn exclude(&self, limit: Limit) -> bool {
        let mut valid = self.iter().filter(|hold| hold.is_valid());
        valid.any(|hold| hold.excludes(limit))
    }

    /// Does the same, and counts those that are retained.
    pub(crate) fn exclude_on_server(&self, limit: Limit) -> bool {
        let is_there = |hold: &&LocalHold| !matches!(hold.stage, Stage::Lost);
        self.iter()
            .filter(is_there)
            .any(|hold| hold.excludes(limit))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn iter(&self) -> impl Iterator<Item = &LocalHold> {
        self.first.iter().chain(&self.further)
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut LocalHold> {
        self.first.iter_mut().chain(&mut self.further)
    }

    fn get(&mut self, token: Token) -> Option<&mut LocalHold> {
        self.iter_mut().find(|hold| hold.token == token)
    }
}
