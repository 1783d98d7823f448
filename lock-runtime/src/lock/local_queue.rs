//! The local queues: for each lock, the callers of this process that wait for it, in arrival order.
//!
//! A queue knows only the names of locks and the options of its waiters. The type `T` that it delivers to
//! them is opaque.

use crate::engine::error::EngineError;
use crate::engine::token::Token;
use crate::error::LockError;
use crate::lock::claim_events::ClaimEvent;
use crate::options::LockOptions;
use crate::util::inbox::Inbox;
use crate::util::panics::contain;
use crate::util::sync::{Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::oneshot;

pub(crate) struct LocalQueues<T> {
    queues: Mutex<HashMap<Arc<str>, LocalQueue<T>>>,
    next_ticket: AtomicU64,
}

/// The local state of a lock that this process holds or waits for.
struct LocalQueue<T> {
    /// The tokens of the holds with which this process holds the lock: one, and possibly one more whose lease
    /// ended before its hold was recorded here.
    holders: Vec<Token>,
    waiters: VecDeque<Waiter<T>>,
    /// The inbox of the task that waits in the server queue for this queue.
    remote_wait: Option<Arc<Inbox<ClaimEvent>>>,
    /// `true` if other processes wait for the lock; `None` if that is unknown.
    remote_waiters: Option<bool>,
    /// The error of the last request, if the server does not answer.
    last_error: Option<EngineError>,
}

pub(crate) struct Waiter<T> {
    ticket: u64,
    options: LockOptions,
    sender: oneshot::Sender<Result<T, LockError>>,
}

impl<T> LocalQueues<T> {
    pub(crate) fn new() -> Self {
        LocalQueues {
            queues: Mutex::default(),
            next_ticket: AtomicU64::new(0),
        }
    }

    /// Returns `true` if this process holds the lock, waits for it, or lingers after it waited for it along with
    /// other processes.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.locked().contains_key(name)
    }

    /// Returns `true` if this process holds the lock, or waits for it.
    pub(crate) fn is_busy(&self, name: &str) -> bool {
        let queues = self.locked();
        let queue = queues.get(name);
        queue.is_some_and(|queue| !queue.holders.is_empty() || !queue.waiters.is_empty())
    }

    /// Adds a waiter at the back. `start` starts the task that waits in the server queue, if there is none yet.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        name: &Arc<str>,
        options: LockOptions,
        start: impl FnOnce() -> Arc<Inbox<ClaimEvent>>,
    ) -> LocalWait<T> {
        let (sender, receiver) = oneshot::channel();
        let mut queues = self.locked();
        let queue = queues.entry(name.clone()).or_default();
        if queue.waiters.capacity() == 0 {
            // Most waiters are alone in their queue.
            queue.waiters.reserve_exact(1);
        }
        // Unique across queues: a ticket of a queue that was removed matches no waiter of its successor.
        let ticket = self.next_ticket.fetch_add(1, Ordering::Relaxed);
        queue.waiters.push_back(Waiter {
            ticket,
            options,
            sender,
        });
        if queue.remote_wait.is_none() {
            queue.remote_wait = Some(start());
        } else if queue.waiters.len() == 1 {
            queue.wake();
        }
        LocalWait {
            queues: self.clone(),
            name: name.clone(),
            ticket,
            receiver,
        }
    }

    /// Removes the waiter at the front if `condition` holds for its options and the known remote waiters.
    pub(crate) fn pop_front_if(
        &self,
        name: &str,
        condition: impl FnOnce(LockOptions, Option<bool>) -> bool,
    ) -> Option<Waiter<T>> {
        let mut queues = self.locked();
        let queue = queues.get_mut(name)?;
        let front = queue.waiters.front()?;
        match condition(front.options, queue.remote_waiters) {
            true => queue.pop_front(),
            false => None,
        }
    }

    pub(crate) fn pop_front(&self, name: &str) -> Option<Waiter<T>> {
        self.locked().get_mut(name)?.pop_front()
    }

    pub(crate) fn push_front(&self, name: &str, waiter: Waiter<T>) {
        if let Some(queue) = self.locked().get_mut(name) {
            queue.waiters.push_front(waiter);
        }
    }

    fn remove(&self, name: &str, ticket: u64) -> Option<Waiter<T>> {
        let mut queues = self.locked();
        let queue = queues.get_mut(name)?;
        let at = queue
            .waiters
            .binary_search_by_key(&ticket, |waiter| waiter.ticket);
        let removed = queue.waiters.remove(at.ok()?);
        if queue.waiters.is_empty() {
            queue.wake();
        }
        removed
    }

    /// Returns the options of the waiter at the front.
    pub(crate) fn front_options(&self, name: &str) -> Option<LockOptions> {
        let queues = self.locked();
        Some(queues.get(name)?.waiters.front()?.options)
    }

    /// Detaches the task that waits in the server queue. Returns `false` if there are waiters again.
    pub(crate) fn remove_if_empty(&self, name: &str) -> bool {
        let mut queues = self.locked();
        let Some(queue) = queues.get_mut(name) else {
            return true;
        };
        if !queue.waiters.is_empty() {
            return false;
        }
        queue.remote_wait = None;
        queue.remote_waiters = None;
        queue.last_error = None;
        if queue.holders.is_empty() {
            queues.remove(name);
        }
        true
    }

    pub(crate) fn is_empty(&self, name: &str) -> bool {
        let queues = self.locked();
        queues
            .get(name)
            .is_none_or(|queue| queue.waiters.is_empty())
    }

    /// Ends the wait of all waiters with `error`.
    pub(crate) fn fail_all(&self, name: &str, error: &LockError) {
        let waiters = self
            .locked()
            .get_mut(name)
            .map(|queue| std::mem::take(&mut queue.waiters));
        for waiter in waiters.unwrap_or_default() {
            waiter.deliver(Err(error.clone()));
        }
    }

    pub(crate) fn set_holder(&self, name: &Arc<str>, token: Token) {
        let mut queues = self.locked();
        let holders = &mut queues.entry(name.clone()).or_default().holders;
        if !holders.contains(&token) {
            holders.push(token);
        }
    }

    /// Records that this process no longer holds the lock with `token`.
    pub(crate) fn clear_holder(&self, name: &str, token: Token) {
        let mut queues = self.locked();
        let Some(queue) = queues.get_mut(name) else {
            return;
        };
        if let Some(at) = queue.holders.iter().position(|holder| *holder == token) {
            queue.holders.swap_remove(at);
            queue.wake();
        }
        if queue.holders.is_empty() && queue.remote_wait.is_none() {
            queues.remove(name);
        }
    }

    pub(crate) fn is_held_here(&self, name: &str) -> bool {
        let queues = self.locked();
        queues
            .get(name)
            .is_some_and(|queue| !queue.holders.is_empty())
    }

    pub(crate) fn remote_waiters(&self, name: &str) -> Option<bool> {
        self.locked().get(name)?.remote_waiters
    }

    /// Records the server's last answer to the task that waits in its queue.
    pub(crate) fn set_remote_state(
        &self,
        name: &str,
        remote_waiters: Option<bool>,
        last_error: Option<EngineError>,
    ) {
        if let Some(queue) = self.locked().get_mut(name) {
            queue.remote_waiters = remote_waiters;
            queue.last_error = last_error;
        }
    }

    pub(crate) fn last_error(&self, name: &str) -> Option<EngineError> {
        self.locked().get(name)?.last_error.clone()
    }

    /// Wakes the tasks of all queues.
    pub(crate) fn wake_all(&self) {
        for queue in self.locked().values() {
            queue.wake();
        }
    }

    #[cfg(test)]
    pub(crate) fn are_all_gone(&self) -> bool {
        self.locked().is_empty()
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Arc<str>, LocalQueue<T>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for LocalQueue<T> {
    fn default() -> Self {
        LocalQueue {
            holders: Vec::new(),
            waiters: VecDeque::new(),
            remote_wait: None,
            remote_waiters: None,
            last_error: None,
        }
    }
}

impl<T> LocalQueue<T> {
    fn pop_front(&mut self) -> Option<Waiter<T>> {
        let front = self.waiters.pop_front();
        if self.waiters.is_empty() {
            self.wake();
        }
        front
    }

    fn wake(&self) {
        if let Some(remote_wait) = &self.remote_wait {
            remote_wait.push(ClaimEvent::Wake);
        }
    }
}

impl<T> Waiter<T> {
    pub(crate) fn options(&self) -> LockOptions {
        self.options
    }

    /// Ends the wait with `result`. Returns the undelivered value if the waiter no longer waits.
    pub(crate) fn deliver(self, result: Result<T, LockError>) -> Option<T> {
        // The waker belongs to the caller's executor and may panic; the result is delivered before it is called.
        let send = || match self.sender.send(result) {
            Err(Ok(undelivered)) => Some(undelivered),
            _ => None,
        };
        contain(send).flatten()
    }
}

/// The wait of one caller. It resolves to the delivered result, or to `None` if the queue was dropped.
/// Dropping it leaves the queue.
pub(crate) struct LocalWait<T> {
    queues: Arc<LocalQueues<T>>,
    name: Arc<str>,
    ticket: u64,
    receiver: oneshot::Receiver<Result<T, LockError>>,
}

impl<T> Future for LocalWait<T> {
    type Output = Option<Result<T, LockError>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver).poll(context).map(Result::ok)
    }
}

impl<T> Drop for LocalWait<T> {
    fn drop(&mut self) {
        let removed = self.queues.remove(&self.name, self.ticket);
        // Drop outside the mutex: this wakes the caller.
        drop(removed);
    }
}
