//! The locks that this process keeps for its next calls, although no caller holds them.

use crate::engine::token::Token;
use crate::limit::Limit;
use crate::lock::local_holds::Kept;
use crate::lock::local_lock::{LocalLock, Recalled, Waiter};
use crate::lock::local_queue::{LocalQueues, change};
use crate::lock::record::kept::KeptRecord;
use crate::options::LockOptions;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Whether a call may try to acquire the lock from the server now.
pub(crate) enum Availability {
    /// The server may grant the lock at once.
    Free,
    /// A caller of this process holds the lock or waits for it.
    Busy,
    /// This process keeps the lock, and the caller may resume it.
    Kept(Kept),
}

/// What becomes of a hold whose last guard has ended.
pub(crate) enum Next<T> {
    /// This waiter receives it.
    Waiter(Waiter<T>),
    Kept,
    /// This process no longer counts as the holder, and must release the lock. `recalled`: another one waits
    /// for it.
    Released {
        recalled: bool,
    },
}

/// For how long a lock is not kept again that another process is about to acquire.
const SOON: Duration = Duration::from_secs(1);

/// What another process' recall does.
pub(crate) struct RecallEffect {
    /// The lock, if it was kept.
    pub(crate) kept: Option<Kept>,
    /// This process keeps the lock, or may keep it, and it is recalled for the first time.
    pub(crate) is_first: bool,
}

impl<T> LocalQueues<T> {
    /// Returns how many locks this process keeps.
    pub(crate) fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    /// Returns a kept lock, or whether the server may grant the lock at once, as far as this process knows:
    /// no caller of this process waits, none lingers after it waited along with other processes, and no hold
    /// is in the way.
    pub(crate) fn availability(&self, name: &str, limit: Limit) -> Availability {
        self.availability_if(name, |lock| lock.may_try(limit))
    }

    /// Does the same for a single try, which is made unless a caller of this process waits for the lock, or
    /// holds it so that no other can.
    pub(crate) fn availability_for_try(&self, name: &str, limit: Limit) -> Availability {
        self.availability_if(name, |lock| {
            !lock.has_waiters() && !lock.holds.exclude(limit)
        })
    }

    fn availability_if(
        &self,
        name: &str,
        may_try: impl FnOnce(&LocalLock<T>) -> bool,
    ) -> Availability {
        let mut locks = self.locked();
        let Some(lock) = locks.get_mut(name) else {
            return Availability::Free;
        };
        match self.take_kept(lock, None) {
            Some(kept) => Availability::Kept(kept),
            None if may_try(lock) => Availability::Free,
            None => Availability::Busy,
        }
    }

    /// Removes the waiter at the front if no caller with another limit came before it, and if `may_take`
    /// holds for its options and the known remote waiters. If there is none, keeps the lock with the record
    /// that `keep` returns, unless another process waits; otherwise records that this process no longer holds
    /// it with `token`.
    pub(crate) fn next(
        &self,
        name: &Arc<str>,
        token: Token,
        may_take: impl FnOnce(LockOptions, Option<bool>) -> bool,
        keep: impl FnOnce() -> Option<KeptRecord>,
    ) -> Next<T> {
        let mut locks = self.locked();
        let Entry::Occupied(mut entry) = locks.entry(name.clone()) else {
            return Next::Released { recalled: false };
        };
        let lock = entry.get_mut();
        let recalled = lock.recalled;
        let may_take = |options, others| match recalled {
            Recalled::Yes => may_take(options, Some(true)),
            _ => may_take(options, others),
        };
        if let Some(waiter) = lock.pop_front_if(token.limit(), may_take) {
            return Next::Waiter(waiter);
        }
        if token.is_recallable()
            && lock.may_keep(token)
            && self.kept() < self.max_kept.load(Ordering::Relaxed)
            && let Some(record) = keep()
        {
            lock.holds.keep(token, record);
            self.kept.fetch_add(1, Ordering::Relaxed);
            return Next::Kept;
        }
        change(entry, |lock| lock.end(|holds| holds.remove(token)));
        Next::Released {
            recalled: recalled == Recalled::Yes,
        }
    }

    /// Records that another process waits for the lock that is held with `token`.
    pub(crate) fn recall(&self, name: &str, token: Token) -> RecallEffect {
        let mut locks = self.locked();
        let lock = locks.get_mut(name);
        let recall = match lock.filter(|lock| lock.holds.has(token)) {
            Some(lock) => RecallEffect {
                is_first: std::mem::replace(&mut lock.recalled, Recalled::Yes) != Recalled::Yes
                    && lock.holds.may_be_kept(token),
                kept: self.take_kept(lock, Some(token)),
            },
            None => {
                self.recalls.came_early(token);
                RecallEffect {
                    is_first: false,
                    kept: None,
                }
            }
        };
        drop(locks);
        self.recalls.arrived.notify_waiters();
        recall
    }

    /// Records that other processes may wait for any lock. Returns those that were kept.
    pub(crate) fn recall_all(&self) -> Vec<Kept> {
        let mut locks = self.locked();
        let held = locks.values_mut().filter(|lock| lock.holds.are_any());
        held.filter_map(|lock| self.keep_no_more(lock)).collect()
    }

    /// Records that another process is about to wait for the lock. Until it has it, the lock is not kept.
    pub(crate) fn recall_kept(&self, name: &Arc<str>) -> RecallEffect {
        let kept = self
            .locked()
            .get_mut(name)
            .and_then(|lock| self.keep_no_more(lock));
        let is_first = kept.is_some();
        if is_first {
            self.recalls.back_off(name, SOON);
        }
        RecallEffect { kept, is_first }
    }

    fn keep_no_more(&self, lock: &mut LocalLock<T>) -> Option<Kept> {
        if lock.recalled == Recalled::No {
            lock.recalled = Recalled::Perhaps;
        }
        self.take_kept(lock, None)
    }

    /// Keeps no lock from now on. Returns those that were kept.
    pub(crate) fn stop_keeping(&self) -> Vec<Kept> {
        // Before the mutex: whoever has it next keeps nothing.
        self.max_kept.store(0, Ordering::Relaxed);
        self.recall_all()
    }

    /// Keeps the lock no longer, if it is kept with `token`.
    pub(crate) fn take_kept_with(&self, name: &str, token: Token) -> Option<Kept> {
        let mut locks = self.locked();
        self.take_kept(locks.get_mut(name)?, Some(token))
    }

    /// Returns `true` if another process waits for the lock that is held with `token`, as far as this one
    /// knows.
    pub(crate) fn is_recalled(&self, name: &str, token: Token) -> bool {
        let locks = self.locked();
        locks
            .get(name)
            .is_some_and(|lock| lock.recalled == Recalled::Yes && lock.holds.has(token))
    }

    /// Keeps the lock no longer: if it is kept with that token, or whatever the token.
    pub(super) fn take_kept(&self, lock: &mut LocalLock<T>, token: Option<Token>) -> Option<Kept> {
        let kept = lock.holds.take_kept(token);
        if kept.is_some() {
            self.kept.fetch_sub(1, Ordering::Relaxed);
        }
        kept
    }
}
