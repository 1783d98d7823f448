//! The local queues: for each lock and each limit, the callers of this process that wait for it, in arrival order.
//!
//! A queue knows only the names of locks and the options of its waiters. The type `T` that it delivers to
//! them is opaque.

use crate::engine::error::EngineError;
use crate::engine::token::Token;
use crate::error::LockError;
use crate::limit::Limit;
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
    locks: Mutex<HashMap<Arc<str>, LocalLock<T>>>,
    next_ticket: AtomicU64,
}

/// The local state of a lock that this process holds or waits for.
struct LocalLock<T> {
    /// The token of a hold with which this process holds the lock.
    holder: Option<Token>,
    /// A caller tries to acquire the lock for reading, and serves the other readers if it succeeds.
    read_try: bool,
    /// Boxed: most locks have one holder, and no caller waits for them.
    more: Option<Box<More<T>>>,
}

struct More<T> {
    /// The tokens of further holds, that share the lock, or whose lease ended before another one was recorded here.
    holders: Vec<Token>,
    /// One for each limit that callers wait with.
    queues: Vec<LocalQueue<T>>,
}

/// The callers that wait for a lock with one limit.
struct LocalQueue<T> {
    limit: Limit,
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

/// The readers that waited for the result of another one's try.
pub(crate) struct Followers<T> {
    /// Those that join its hold.
    pub(crate) joined: Vec<Waiter<T>>,
    /// Those that have come after as many others as their options allow to wait, and how many these were.
    pub(crate) refused: Vec<(Waiter<T>, usize)>,
}

impl<T> LocalQueues<T> {
    pub(crate) fn new() -> Self {
        LocalQueues {
            locks: Mutex::default(),
            next_ticket: AtomicU64::new(0),
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
        locks.get(name).is_some_and(|lock| {
            lock.has_waiters()
                || lock.is_held_exclusively()
                || limit.is_exclusive() && lock.holder.is_some()
        })
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

    /// Ends the try of a reader. If it `acquired` the lock, the readers that wait for its result join the hold while
    /// `may_join` returns `true` for their options; for the others, `start` starts the task that waits in the server
    /// queue.
    pub(crate) fn end_read_try(
        &self,
        name: &str,
        acquired: bool,
        may_join: impl Fn(LockOptions) -> bool,
        start: impl FnOnce() -> Arc<Inbox<ClaimEvent>>,
    ) -> Followers<T> {
        let mut followers = Followers {
            joined: Vec::new(),
            refused: Vec::new(),
        };
        let mut locks = self.locked();
        let Some(lock) = locks.get_mut(name) else {
            return followers;
        };
        while let Some(reader) = lock.pop_front_if(Limit::UNLIMITED, |options, _| may_join(options))
        {
            followers.joined.push(reader);
        }
        let mut waiting = lock.waiting();
        lock.read_try = false;
        // Readers that cannot join the hold acquire the lock beside it, unless a waiter of another kind is in the way.
        let enter_at_once = acquired && waiting == 0;
        if let Some(queue) = lock.queue(Limit::UNLIMITED) {
            for waiter in std::mem::take(&mut queue.waiters) {
                match waiter.options.max_waiters {
                    Some(most) if waiting >= most && !enter_at_once => {
                        followers.refused.push((waiter, waiting));
                    }
                    _ => {
                        waiting += 1;
                        queue.waiters.push_back(waiter);
                    }
                }
            }
            match (queue.remote_wait.is_some(), queue.waiters.is_empty()) {
                (false, true) => lock.remove_queue(Limit::UNLIMITED),
                (false, false) => queue.remote_wait = Some(start()),
                (true, true) => queue.wake(),
                (true, false) => {}
            }
        }
        if lock.is_unused() {
            locks.remove(name);
        }
        followers
    }

    /// Adds a waiter. `start` starts the task that waits in the server queue, if there is none yet.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        name: &Arc<str>,
        options: LockOptions,
        place: Place,
        start: impl FnOnce() -> Arc<Inbox<ClaimEvent>>,
    ) -> Result<LocalWait<T>, NotQueued> {
        let (sender, receiver) = oneshot::channel();
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
        let queue = lock.queue_or_insert(options.limit);
        if queue.waiters.capacity() == 0 {
            // Most waiters are alone in their queue.
            queue.waiters.reserve_exact(1);
        }
        // Unique across queues: a ticket of a queue that was removed matches no waiter of its successor.
        let ticket = match place {
            Place::Back | Place::BackUnlessFree => self.next_ticket.fetch_add(1, Ordering::Relaxed),
            Place::Ticket(ticket) => ticket,
        };
        let at = queue.waiters.partition_point(|it| it.ticket < ticket);
        let waiter = Waiter {
            ticket,
            options,
            sender,
        };
        queue.waiters.insert(at, waiter);
        if queue.remote_wait.is_none() {
            if !is_served {
                queue.remote_wait = Some(start());
            }
        } else if queue.waiters.len() == 1 {
            queue.wake();
        }
        Ok(LocalWait {
            queues: self.clone(),
            name: name.clone(),
            limit: options.limit,
            ticket,
            is_served,
            receiver,
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

    pub(crate) fn pop_front(&self, name: &str, limit: Limit) -> Option<Waiter<T>> {
        self.with(name, limit, LocalQueue::pop_front)?
    }

    pub(crate) fn push_front(&self, name: &str, waiter: Waiter<T>) {
        let limit = waiter.options.limit;
        self.with(name, limit, |queue| queue.waiters.push_front(waiter));
    }

    fn remove(&self, name: &str, limit: Limit, ticket: u64) -> Option<Waiter<T>> {
        let mut locks = self.locked();
        let lock = locks.get_mut(name)?;
        let queue = lock.queue(limit)?;
        let at = queue
            .waiters
            .binary_search_by_key(&ticket, |waiter| waiter.ticket);
        let removed = queue.waiters.remove(at.ok()?);
        if queue.waiters.is_empty() {
            match queue.remote_wait {
                Some(_) => queue.wake(),
                None => lock.remove_queue(limit),
            }
        }
        removed
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

    /// Ends the wait of all waiters with `error`.
    pub(crate) fn fail_all(&self, name: &str, limit: Limit, error: &LockError) {
        let waiters = self.with(name, limit, |queue| std::mem::take(&mut queue.waiters));
        for waiter in waiters.unwrap_or_default() {
            waiter.deliver(Err(error.clone()));
        }
    }

    pub(crate) fn set_holder(&self, name: &Arc<str>, token: Token) {
        let mut locks = self.locked();
        locks.entry(name.clone()).or_default().add_holder(token);
    }

    /// Records that this process no longer holds the lock with `token`.
    pub(crate) fn clear_holder(&self, name: &str, token: Token) {
        let mut locks = self.locked();
        let Some(lock) = locks.get_mut(name) else {
            return;
        };
        if lock.remove_holder(token) {
            lock.queues().iter().for_each(LocalQueue::wake);
        }
        if lock.is_unused() {
            locks.remove(name);
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
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for LocalLock<T> {
    fn default() -> Self {
        LocalLock {
            holder: None,
            read_try: false,
            more: None,
        }
    }
}

impl<T> Default for More<T> {
    fn default() -> Self {
        More {
            holders: Vec::new(),
            queues: Vec::new(),
        }
    }
}

impl<T> LocalLock<T> {
    fn holders(&self) -> impl Iterator<Item = Token> {
        let further = self.more.iter().flat_map(|more| &more.holders);
        self.holder.iter().chain(further).copied()
    }

    fn queues(&self) -> &[LocalQueue<T>] {
        self.more.as_ref().map_or(&[], |more| &more.queues)
    }

    fn add_holder(&mut self, token: Token) {
        if self.holder.is_none() {
            self.holder = Some(token);
        } else if self.holders().all(|holder| holder != token) {
            self.more.get_or_insert_default().holders.push(token);
        }
    }

    /// Returns `true` if the hold with that token was recorded.
    fn remove_holder(&mut self, token: Token) -> bool {
        let was_recorded = self.holders().any(|holder| holder == token);
        let further = self.more.as_mut().map(|more| &mut more.holders);
        if self.holder == Some(token) {
            self.holder = further.and_then(Vec::pop);
        } else if let Some(further) = further {
            further.retain(|holder| *holder != token);
        }
        was_recorded
    }

    /// Returns the number of callers that wait, without the readers that follow a try.
    fn waiting(&self) -> usize {
        let follows = |queue: &&LocalQueue<T>| self.read_try && queue.limit == Limit::UNLIMITED;
        let queues = self.queues().iter().filter(|queue| !follows(queue));
        queues.map(|queue| queue.waiters.len()).sum()
    }

    fn has_waiters(&self) -> bool {
        self.queues().iter().any(|queue| !queue.waiters.is_empty())
    }

    fn may_try(&self, limit: Limit) -> bool {
        !limit.is_exclusive() && self.queues().is_empty() && !self.is_held_exclusively()
    }

    fn pop_front_if(
        &mut self,
        limit: Limit,
        condition: impl FnOnce(LockOptions, Option<bool>) -> bool,
    ) -> Option<Waiter<T>> {
        let others = self.queues().iter().filter(|queue| queue.limit != limit);
        let before = others.filter_map(|queue| queue.waiters.front());
        let before = before.map(|waiter| waiter.ticket).min();
        let queue = self.queue(limit)?;
        let front = queue.waiters.front()?;
        let is_first = before.is_none_or(|before| front.ticket < before);
        match is_first && condition(front.options, queue.remote_waiters) {
            true => queue.pop_front(),
            false => None,
        }
    }

    fn is_held_exclusively(&self) -> bool {
        self.holders().any(|holder| holder.limit().is_exclusive())
    }

    fn is_unused(&self) -> bool {
        self.holder.is_none() && self.queues().is_empty() && !self.read_try
    }

    fn queue(&mut self, limit: Limit) -> Option<&mut LocalQueue<T>> {
        let queues = &mut self.more.as_mut()?.queues;
        queues.iter_mut().find(|queue| queue.limit == limit)
    }

    fn queue_or_insert(&mut self, limit: Limit) -> &mut LocalQueue<T> {
        let queues = &mut self.more.get_or_insert_default().queues;
        let at = queues.iter().position(|queue| queue.limit == limit);
        let at = at.unwrap_or_else(|| {
            if queues.capacity() == 0 {
                // Most locks have waiters of one kind.
                queues.reserve_exact(1);
            }
            queues.push(LocalQueue::new(limit));
            queues.len() - 1
        });
        &mut queues[at]
    }

    fn remove_queue(&mut self, limit: Limit) {
        if let Some(more) = &mut self.more {
            more.queues.retain(|queue| queue.limit != limit);
        }
    }
}

impl<T> LocalQueue<T> {
    fn new(limit: Limit) -> Self {
        LocalQueue {
            limit,
            waiters: VecDeque::new(),
            remote_wait: None,
            remote_waiters: None,
            last_error: None,
        }
    }

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
    limit: Limit,
    ticket: u64,
    /// `true` if another reader's try may serve this caller.
    is_served: bool,
    receiver: oneshot::Receiver<Result<T, LockError>>,
}

impl<T> LocalWait<T> {
    pub(crate) fn is_served(&self) -> bool {
        self.is_served
    }
}

impl<T> Future for LocalWait<T> {
    type Output = Option<Result<T, LockError>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver).poll(context).map(Result::ok)
    }
}

impl<T> Drop for LocalWait<T> {
    fn drop(&mut self) {
        let removed = self.queues.remove(&self.name, self.limit, self.ticket);
        // Drop outside the mutex: this wakes the caller.
        drop(removed);
    }
}
