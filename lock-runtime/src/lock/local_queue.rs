//! The local queues: for each lock and each limit, the callers of this process that wait for it, in arrival order.
//!
//! A queue knows only the names of locks and the options of its waiters. The type `T` that it delivers to
//! them is opaque.

use crate::engine::error::EngineError;
use crate::engine::token::Token;
use crate::error::{Holder, LockError};
use crate::limit::Limit;
use crate::lock::claim_events::ClaimEvent;
use crate::lock::local_lock::{Followers, LocalLock, LocalQueue, Waiter};
use crate::lock::offer::{Pickup, offer};
use crate::options::LockOptions;
use crate::util::inbox::Inbox;
use crate::util::sync::{Mutex, MutexGuard};
use crate::util::thread_end::Debt;
#[cfg(feature = "testing")]
use once_cell::sync::OnceCell;
use std::collections::HashMap;
use std::collections::hash_map::{Entry, OccupiedEntry};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
#[cfg(feature = "testing")]
use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) struct LocalQueues<T> {
    locks: Mutex<HashMap<Arc<str>, LocalLock<T>>>,
    next_ticket: AtomicU64,
    /// Notified when a lock is held or waited for, once a test waits for that.
    #[cfg(feature = "testing")]
    changed: OnceCell<Notify>,
}

/// The place of a waiter.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    Back,
    /// At the back, unless the caller, which has not tried yet, may try.
    BackUnlessFree,
    /// That of a ticket drawn before.
    Ticket(u64),
}

/// Why a caller was not added to the queue.
#[derive(Debug)]
pub(crate) enum NotQueued {
    /// As many callers wait as the options of the call allow, or more.
    TooMany(usize),
    /// The caller tries first: the server may grant the lock at once.
    MayTry,
}

impl<T> LocalQueues<T> {
    pub(crate) fn new() -> Self {
        LocalQueues {
            locks: Mutex::default(),
            next_ticket: AtomicU64::new(0),
            #[cfg(feature = "testing")]
            changed: OnceCell::new(),
        }
    }

    /// Waits until the lock is in a state that has come about by a new holder or a new waiter.
    #[cfg(feature = "testing")]
    pub(crate) async fn wait_until(&self, name: &str, is_so: impl Fn(&LocalLock<T>) -> bool) {
        let changed = self.changed.get_or_init(Notify::new);
        loop {
            let changed = changed.notified();
            let is_so = match self.locked().get(name) {
                Some(lock) => is_so(lock),
                None => is_so(&LocalLock::default()),
            };
            if is_so {
                return;
            }
            changed.await;
        }
    }

    /// Wakes the test that waits for a change. Called outside the mutex: the waker belongs to the test's executor.
    fn report_change(&self) {
        #[cfg(feature = "testing")]
        if let Some(changed) = self.changed.get() {
            changed.notify_waiters();
        }
    }

    /// Returns `true` if the server may grant the lock at once, as far as this process knows: no caller of this
    /// process waits, none lingers after it waited along with other processes, and no hold is in the way.
    pub(crate) fn may_try(&self, name: &str, limit: Limit) -> bool {
        let locks = self.locked();
        locks.get(name).is_none_or(|lock| lock.may_try(limit))
    }

    /// Returns `true` if this process neither holds the lock nor waits for it.
    pub(crate) fn is_unused(&self, name: &str) -> bool {
        !self.locked().contains_key(name)
    }

    /// Returns `true` if a caller of this process waits for the lock, or holds it so that no other can.
    pub(crate) fn is_busy(&self, name: &str, limit: Limit) -> bool {
        let locks = self.locked();
        let lock = locks.get(name);
        lock.is_some_and(|lock| lock.has_waiters() || lock.excludes(limit))
    }

    /// Returns `true` if a caller of this process waits for the lock.
    pub(crate) fn has_waiters(&self, name: &str) -> bool {
        let locks = self.locked();
        locks.get(name).is_some_and(LocalLock::has_waiters)
    }

    /// Begins the try of a reader, during which other readers wait for its result. Returns its ticket, or `None`
    /// if another reader tries already. [`end_read_try`](Self::end_read_try) must follow.
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

    /// Adds a waiter, which waits until `deadline`. `start` starts the task that waits in the server queue, if there is
    /// none yet.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        name: &Arc<str>,
        options: LockOptions,
        (place, deadline): (Place, Instant),
        start: impl FnOnce() -> Arc<Inbox<ClaimEvent>>,
    ) -> Result<LocalWait<T>, NotQueued> {
        let (offerer, pickup) = offer();
        let mut locks = self.locked();
        let lock = locks.entry(name.clone()).or_default();
        let is_served = lock.read_try && options.limit == Limit::UNLIMITED;
        let waiting = lock.waiting();
        let refused = match place {
            // A reader that follows a try may acquire a free lock at once.
            _ if is_served => None,
            Place::BackUnlessFree if lock.may_try(options.limit) => Some(NotQueued::MayTry),
            _ if options.max_waiters.is_some_and(|most| waiting >= most) => {
                Some(NotQueued::TooMany(waiting))
            }
            _ => None,
        };
        if let Some(refused) = refused {
            if lock.is_unused() {
                locks.remove(name);
            }
            return Err(refused);
        }
        // Unique across queues: a ticket of a queue that was removed matches no waiter of its successor.
        let ticket = match place {
            Place::Back | Place::BackUnlessFree => self.next_ticket.fetch_add(1, Ordering::Relaxed),
            Place::Ticket(ticket) => ticket,
        };
        let queue = lock.queue_or_insert(options.limit);
        queue.insert(Waiter {
            ticket,
            options,
            deadline,
            offerer,
        });
        if queue.remote_wait.is_none() {
            if !is_served {
                queue.remote_wait = Some(start());
            }
        } else if queue.waiters.len() == 1 {
            queue.wake();
        }
        drop(locks);
        self.report_change();
        Ok(LocalWait {
            queues: self.clone(),
            name: name.clone(),
            limit: options.limit,
            ticket,
            is_served,
            pickup,
        })
    }

    /// Starts the task that waits in the server queue, if callers wait without one, for the result of another reader's
    /// try.
    pub(crate) fn wait_without_try(
        &self,
        name: &str,
        limit: Limit,
        start: impl FnOnce() -> Arc<Inbox<ClaimEvent>>,
    ) {
        self.with(name, limit, |queue| {
            if queue.remote_wait.is_none() && !queue.waiters.is_empty() {
                queue.remote_wait = Some(start());
            }
        });
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

    /// Removes the waiter at the front under the same conditions, for the hold with `token`. If there is none, records
    /// that this process no longer holds the lock with `token`.
    pub(crate) fn pop_front_or_clear_holder(
        &self,
        name: &Arc<str>,
        token: Token,
        condition: impl FnOnce(LockOptions, Option<bool>) -> bool,
    ) -> Option<Waiter<T>> {
        let mut locks = self.locked();
        let Entry::Occupied(mut lock) = locks.entry(name.clone()) else {
            return None;
        };
        let waiter = lock.get_mut().pop_front_if(token.limit(), condition);
        if waiter.is_none() {
            remove_holder(lock, token);
        }
        waiter
    }

    pub(crate) fn pop_front(&self, name: &str, limit: Limit) -> Option<Waiter<T>> {
        self.with(name, limit, LocalQueue::pop_front)?
    }

    pub(crate) fn push_front(&self, name: &str, waiter: Waiter<T>) {
        let limit = waiter.options.limit;
        self.with(name, limit, |queue| queue.insert(waiter));
    }

    fn remove(&self, name: &str, limit: Limit, ticket: u64) -> Option<Waiter<T>> {
        let mut locks = self.locked();
        let lock = locks.get_mut(name)?;
        let queue = lock.queue(limit)?;
        let removed = queue.remove(ticket)?;
        queue.settle();
        if queue.waiters.is_empty() && queue.remote_wait.is_none() {
            lock.remove_queue(limit);
        }
        Some(removed)
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

    /// Returns the debt of the caller that left last, if none waits now: the place in the server queue is to be left.
    pub(crate) fn to_leave(&self, name: &str, limit: Limit) -> Option<Debt> {
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

    pub(crate) fn set_holder(&self, name: &Arc<str>, token: Token) {
        let mut locks = self.locked();
        locks.entry(name.clone()).or_default().add_holder(token);
        drop(locks);
        self.report_change();
    }

    /// Records that this process no longer holds the lock with `token`.
    pub(crate) fn clear_holder(&self, name: &Arc<str>, token: Token) {
        let mut locks = self.locked();
        if let Entry::Occupied(lock) = locks.entry(name.clone()) {
            remove_holder(lock, token);
        }
    }

    /// Returns `true` if a hold of this process may be handed to waiters with that limit.
    pub(crate) fn may_be_handed_off(&self, name: &str, limit: Limit) -> bool {
        let locks = self.locked();
        let lock = locks.get(name);
        lock.is_some_and(|lock| lock.holders().any(|holder| holder.limit() == limit))
    }

    pub(crate) fn remote_waiters(&self, name: &str, limit: Limit) -> Option<bool> {
        self.with(name, limit, |queue| queue.remote_waiters)?
    }

    /// Records the server's last answer to the task that waits in its queue.
    pub(crate) fn set_remote_state(
        &self,
        name: &str,
        limit: Limit,
        remote_waiters: Option<bool>,
        last_error: Option<EngineError>,
    ) {
        self.with(name, limit, |queue| {
            queue.remote_waiters = remote_waiters;
            queue.last_error = last_error;
        });
    }

    pub(crate) fn last_error(&self, name: &str, limit: Limit) -> Option<EngineError> {
        self.with(name, limit, |queue| queue.last_error.clone())?
    }

    /// Records who is in the way, as the server told last.
    pub(crate) fn set_remote_holder(&self, name: &str, limit: Limit, holder: Holder) {
        self.with(name, limit, |queue| queue.remote_holder = holder);
    }

    /// Returns who is in the way of a caller with that limit.
    pub(crate) fn holder(&self, name: &str, limit: Limit) -> Holder {
        let mut locks = self.locked();
        match locks.get_mut(name) {
            Some(lock) if lock.excludes(limit) => Holder::ThisProcess,
            Some(lock) => lock
                .queue(limit)
                .map_or_else(Holder::default, |queue| queue.remote_holder),
            None => Holder::default(),
        }
    }

    /// Wakes the tasks of all queues.
    pub(crate) fn wake_all(&self) {
        for lock in self.locked().values() {
            lock.queues().iter().for_each(LocalQueue::wake);
        }
    }

    /// Returns `true` if this process is recorded to hold the lock with `token`.
    #[cfg(test)]
    pub(crate) fn is_held_with(&self, name: &str, token: Token) -> bool {
        let locks = self.locked();
        locks
            .get(name)
            .is_some_and(|lock| lock.holders().any(|holder| holder == token))
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

/// Removes a holder, and wakes the tasks that wait in the server queue.
fn remove_holder<T>(mut lock: OccupiedEntry<'_, Arc<str>, LocalLock<T>>, token: Token) {
    if lock.get_mut().remove_holder(token) {
        lock.get().queues().iter().for_each(LocalQueue::wake);
    }
    if lock.get().is_unused() {
        lock.remove();
    }
}

/// The wait of one caller. It resolves to the delivered result, or to `None` if the caller did not pick it up in time.
/// Dropping it leaves the queue.
pub(crate) struct LocalWait<T> {
    queues: Arc<LocalQueues<T>>,
    name: Arc<str>,
    limit: Limit,
    ticket: u64,
    /// `true` if another reader's try may serve this caller.
    is_served: bool,
    pickup: Pickup<Result<T, LockError>>,
}

impl<T> LocalWait<T> {
    pub(crate) fn is_served(&self) -> bool {
        self.is_served
    }
}

impl<T> Future for LocalWait<T> {
    type Output = Option<Result<T, LockError>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.pickup).poll(context)
    }
}

impl<T> Drop for LocalWait<T> {
    fn drop(&mut self) {
        let removed = self.queues.remove(&self.name, self.limit, self.ticket);
        // Drop outside the mutex: this wakes the caller.
        drop(removed);
    }
}
