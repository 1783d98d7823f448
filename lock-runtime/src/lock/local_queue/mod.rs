//! What this process has, and what its callers wait for: for each lock its holds, and for each limit those
//! that wait, in arrival order.
//!
//! A queue knows only the names of locks and the options of its waiters. The type `T` that it delivers to
//! them is opaque.

mod changes;
pub(crate) mod keeping;
mod remote_state;
pub(crate) mod wait;

use crate::engine::request::Claim;
use crate::engine::token::Token;
use crate::error::{Holder, LockError};
use crate::limit::Limit;
use crate::lock::claim_events::ClaimEvent;
use crate::lock::hold::{End, Hold};
use crate::lock::local_holds::Kept;
use crate::lock::local_lock::{Followers, LocalLock, LocalQueue, Recalled, Waiter, Waits};
use crate::lock::recalls::Recalls;
use crate::options::LockOptions;
use crate::util::inbox::Inbox;
use crate::util::sync::{Mutex, MutexGuard};
use crate::util::thread_end::PendingWork;
#[cfg(feature = "testing")]
use once_cell::sync::OnceCell;
use std::collections::HashMap;
use std::collections::hash_map::{Entry, OccupiedEntry};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::Notify;

pub(crate) struct LocalQueues<T> {
    locks: Mutex<HashMap<Arc<str>, LocalLock<T>>>,
    next_ticket: AtomicU64,
    pub(crate) recalls: Recalls,
    /// How many locks are kept. Changes under the mutex.
    kept: AtomicUsize,
    max_kept: AtomicUsize,
    /// Notified when a lock is held or waited for, once a test waits for that.
    #[cfg(feature = "testing")]
    changed: OnceCell<Notify>,
}

impl<T> LocalQueues<T> {
    /// Creates queues that keep that many locks at the most.
    pub(crate) fn new(max_kept: usize) -> Self {
        LocalQueues {
            locks: Mutex::default(),
            next_ticket: AtomicU64::new(0),
            recalls: Recalls::default(),
            kept: AtomicUsize::new(0),
            max_kept: AtomicUsize::new(max_kept),
            #[cfg(feature = "testing")]
            changed: OnceCell::new(),
        }
    }

    /// Returns `true` if this process neither holds the lock nor waits for it.
    pub(crate) fn is_unused(&self, name: &str) -> bool {
        !self.locked().contains_key(name)
    }

    /// Begins the try of a reader, during which other readers wait for its result. Returns its ticket, or
    /// `None` if another reader tries already. [`end_read_try`](Self::end_read_try) must follow.
    pub(crate) fn begin_read_try(&self, name: &Arc<str>) -> Option<u64> {
        let mut locks = self.locked();
        let lock = locks.entry(name.clone()).or_default();
        let begins = !std::mem::replace(&mut lock.read_try, true);
        begins.then(|| self.next_ticket.fetch_add(1, Ordering::Relaxed))
    }

    /// Ends the try of a reader: see [`LocalLock::end_read_try`].
    pub(crate) fn end_read_try(
        &self,
        name: &str,
        acquired: bool,
        may_join: impl Fn(LockOptions) -> bool,
        start: impl FnOnce() -> Arc<Inbox<ClaimEvent>>,
    ) -> Followers<T> {
        let mut locks = self.locked();
        let Some(lock) = locks.get_mut(name) else {
            return Followers::default();
        };
        let followers = lock.end_read_try(acquired, may_join, start);
        if lock.is_unused() {
            locks.remove(name);
        }
        followers
    }

    /// Removes the waiter at the front of its queue if no caller with another limit came before it, and if
    /// `condition` holds for its options and the known remote waiters.
    pub(crate) fn pop_front_if(
        &self,
        name: &str,
        limit: Limit,
        condition: impl FnOnce(LockOptions, Option<bool>) -> bool,
    ) -> Option<Waiter<T>> {
        let mut locks = self.locked();
        locks.get_mut(name)?.pop_front_if(limit, condition)
    }

    pub(crate) fn pop_front(&self, name: &str, limit: Limit) -> Option<Waiter<T>> {
        self.with(name, limit, LocalQueue::pop_front)?
    }

    pub(crate) fn push_front(&self, name: &str, waiter: Waiter<T>) {
        let limit = waiter.options.limit;
        self.with(name, limit, |queue| queue.insert(waiter));
    }

    /// Returns the options of the waiter at the front.
    pub(crate) fn front_options(&self, name: &str, limit: Limit) -> Option<LockOptions> {
        self.with(name, limit, |queue| Some(queue.waiters.front()?.options))?
    }

    /// Detaches the task that waits in the server queue. Returns `false` if there are waiters again.
    pub(crate) fn remove_if_empty(&self, name: &str, limit: Limit) -> bool {
        let mut locks = self.locked();
        let Some(lock) = locks.get_mut(name) else {
            return true;
        };
        if lock
            .queue(limit)
            .is_some_and(|queue| !queue.waiters.is_empty())
        {
            return false;
        }
        lock.remove_queue(limit);
        if lock.is_unused() {
            locks.remove(name);
        }
        true
    }

    pub(crate) fn is_empty(&self, name: &str, limit: Limit) -> bool {
        let empty = self.with(name, limit, |queue| queue.waiters.is_empty());
        empty.unwrap_or(true)
    }

    /// Returns how many callers with that limit wait.
    pub(crate) fn waiting(&self, name: &str, limit: Limit) -> usize {
        let waiting = self.with(name, limit, |queue| queue.waiters.len());
        waiting.unwrap_or(0)
    }

    /// Returns since when callers with that limit wait, and for which sites.
    pub(crate) fn waits(&self, name: &str, limit: Limit) -> Vec<Waits> {
        let waits = self.with(name, limit, |queue| {
            queue.waiters.iter().map(|waiter| waiter.waits).collect()
        });
        waits.unwrap_or_default()
    }

    /// Returns the pending of the caller that left last, if none waits now: the place in the server queue is
    /// to be left.
    pub(crate) fn to_leave(&self, name: &str, limit: Limit) -> Option<PendingWork> {
        self.with(name, limit, |queue| queue.to_leave.clone())?
    }

    /// Ends the wait of all waiters with `error`.
    pub(crate) fn fail_all(&self, name: &str, limit: Limit, error: &LockError) {
        let waiters = self.with(name, limit, |queue| {
            let waiters = std::mem::take(&mut queue.waiters);
            queue.settle();
            waiters
        });
        for waiter in waiters.unwrap_or_default() {
            waiter.deliver(Err(error.clone()));
        }
    }

    /// Records a new hold. Returns `true` if another process has recalled the lock already.
    pub(crate) fn add(&self, hold: &Arc<Hold>) -> bool {
        let token = hold.token();
        let mut locks = self.locked();
        let lock = locks.entry(hold.name.clone()).or_default();
        lock.add(hold);
        let is_recalled = token.is_recallable() && self.recalls.have(token);
        if is_recalled {
            lock.recalled = Recalled::Yes;
        }
        drop(locks);
        self.report_change();
        is_recalled
    }

    /// Records that the hold with that token has lost the lock, or has ended. Returns it if it is kept.
    pub(crate) fn end(&self, name: &Arc<str>, token: Token, end: End) -> Option<Kept> {
        let mut locks = self.locked();
        let Entry::Occupied(mut entry) = locks.entry(name.clone()) else {
            return None;
        };
        let kept = self.take_kept(entry.get_mut(), Some(token));
        change(entry, |lock| {
            lock.end(|holds| match end {
                End::Lost => holds.lose(token),
                End::Over => holds.remove(token),
            });
        });
        kept
    }

    /// Records that a lock is held without a guard until the end of its `min_hold`. Returns what is notified
    /// if that is to end now.
    pub(crate) fn retain(&self, claim: &Claim) -> Arc<Notify> {
        let mut locks = self.locked();
        let lock = locks.entry(claim.name.clone()).or_default();
        lock.holds.retain(claim.token)
    }

    /// Ends the `min_hold` of a lock that is held without a guard. Returns `false` if none is.
    pub(crate) fn end_retained(&self, name: &str, token: Token) -> bool {
        let mut locks = self.locked();
        locks
            .get_mut(name)
            .is_some_and(|lock| lock.holds.end_retained(token))
    }

    /// Returns the holds of the lock whose bodies may run, and that which is kept.
    pub(crate) fn holds(&self, name: &str) -> Vec<Arc<Hold>> {
        let locks = self.locked();
        locks
            .get(name)
            .map(|lock| lock.holds.all())
            .unwrap_or_default()
    }

    /// Lets other readers join a read hold.
    pub(crate) fn share(&self, hold: &Hold) {
        if let Some(lock) = self.locked().get_mut(&hold.name) {
            lock.holds.share(hold.token());
        }
    }

    /// Returns a read hold that a newcomer may join: it passes no waiter.
    pub(crate) fn shared(&self, name: &str) -> Option<Arc<Hold>> {
        let locks = self.locked();
        let lock = locks.get(name).filter(|lock| !lock.has_waiters());
        lock?.holds.shared()
    }

    /// Returns `true` if a hold of this process may be handed to waiters with that limit.
    pub(crate) fn may_be_handed_off(&self, name: &str, limit: Limit) -> bool {
        let locks = self.locked();
        let lock = locks.get(name);
        lock.is_some_and(|lock| lock.holds.tokens().any(|token| token.limit() == limit))
    }

    /// Returns who is in the way of a caller with that limit.
    pub(crate) fn holder(&self, name: &str, limit: Limit) -> Holder {
        let mut locks = self.locked();
        match locks.get_mut(name) {
            Some(lock) if lock.holds.exclude_on_server(limit) => Holder::ThisProcess,
            Some(lock) => lock
                .queue(limit)
                .map_or_else(Holder::default, |queue| queue.remote_holder.clone()),
            None => Holder::default(),
        }
    }

    /// Wakes the tasks of all queues.
    pub(crate) fn wake_all(&self) {
        for lock in self.locked().values() {
            lock.queues.iter().for_each(LocalQueue::wake);
        }
    }

    /// Returns `true` if this process is recorded to hold the lock with `token`.
    #[cfg(test)]
    pub(crate) fn is_held_with(&self, name: &str, token: Token) -> bool {
        let locks = self.locked();
        locks.get(name).is_some_and(|lock| lock.holds.has(token))
    }

    #[cfg(test)]
    pub(crate) fn are_all_gone(&self) -> bool {
        self.locked().is_empty()
    }

    fn with<R>(
        &self,
        name: &str,
        limit: Limit,
        action: impl FnOnce(&mut LocalQueue<T>) -> R,
    ) -> Option<R> {
        let mut locks = self.locked();
        locks.get_mut(name)?.queue(limit).map(action)
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Arc<str>, LocalLock<T>>> {
        self.locks.lock()
    }
}

/// Changes a lock, and removes it if it is unused then.
fn change<T>(
    mut entry: OccupiedEntry<'_, Arc<str>, LocalLock<T>>,
    change: impl FnOnce(&mut LocalLock<T>),
) {
    change(entry.get_mut());
    if entry.get().is_unused() {
        entry.remove();
    }
}
