//! What this process knows of one lock: how it has the lock, and which of its callers wait.

use crate::engine::error::EngineError;
use crate::engine::token::Token;
use crate::error::{Holder, LockError};
use crate::limit::Limit;
use crate::lock::claim_events::ClaimEvent;
use crate::lock::hold::Hold;
use crate::lock::local_holds::LocalHolds;
use crate::lock::offer::{Offered, Offerer};
use crate::options::LockOptions;
use crate::site::Site;
use crate::util::inbox::Inbox;
use crate::util::thread_end::PendingWork;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::time::Instant;

/// The state of a lock that this process has or waits for.
pub(crate) struct LocalLock<T> {
    pub(crate) holds: LocalHolds,
    /// A caller tries to acquire the lock for reading, and serves the other readers if it succeeds.
    pub(crate) read_try: bool,
    pub(crate) recalled: Recalled,
    /// One for each limit that callers wait with.
    pub(crate) queues: Vec<LocalQueue<T>>,
}

/// Whether another process waits for the lock, so that this one does not keep it.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Recalled {
    No,
    /// A recall may have been missed.
    Perhaps,
    Yes,
}

/// The callers that wait for a lock with one limit.
pub(crate) struct LocalQueue<T> {
    pub(crate) limit: Limit,
    pub(crate) waiters: VecDeque<Waiter<T>>,
    /// The inbox of the task that waits in the server queue for this queue.
    pub(crate) remote_wait: Option<Arc<Inbox<ClaimEvent>>>,
    /// No caller waits any more, and that task has not left the server queue yet.
    pub(crate) to_leave: Option<PendingWork>,
    /// `true` if other processes wait for the lock; `None` if that is unknown.
    pub(crate) remote_waiters: Option<bool>,
    /// The error of the last request, if the server does not reply.
    pub(crate) last_error: Option<EngineError>,
    /// Who is in the way, as the server reported last.
    pub(crate) remote_holder: Holder,
}

/// Since when a caller waits, and for which site.
pub(crate) type Waits = (Instant, Option<&'static Site>);

pub(crate) struct Waiter<T> {
    pub(crate) ticket: u64,
    pub(crate) options: LockOptions,
    pub(crate) deadline: Instant,
    pub(crate) waits: Waits,
    pub(crate) offerer: Offerer<Result<T, LockError>>,
}

/// The readers that waited for the result of another one's try.
pub(crate) struct Followers<T> {
    /// Those that join its hold.
    pub(crate) joined: Vec<Waiter<T>>,
    /// Those that have come after as many others as their options allow to wait, and how many these were.
    pub(crate) refused: Vec<(Waiter<T>, usize)>,
}

impl<T> Default for LocalLock<T> {
    fn default() -> Self {
        LocalLock {
            holds: LocalHolds::default(),
            read_try: false,
            recalled: Recalled::No,
            queues: Vec::new(),
        }
    }
}

impl<T> Default for Followers<T> {
    fn default() -> Self {
        Followers {
            joined: Vec::new(),
            refused: Vec::new(),
        }
    }
}

impl<T> LocalLock<T> {
    /// Records a new hold.
    pub(crate) fn add(&mut self, hold: &Arc<Hold>) {
        if self.holds.are_any() {
            // Who waited for the holds before may have its own now; if not, it is seen again.
            self.recalled = Recalled::No;
        }
        self.holds.add(hold);
    }

    /// Changes the holds. If one is valid no more, others may have the lock: wakes the tasks that wait in the
    /// server queue.
    pub(crate) fn end(&mut self, end: impl FnOnce(&mut LocalHolds) -> bool) {
        if end(&mut self.holds) {
            self.queues.iter().for_each(LocalQueue::wake);
        }
        if !self.holds.are_any() {
            self.recalled = Recalled::No;
        }
    }

    /// Returns `true` if the hold with that token alone holds the lock, and no other process is known to wait
    /// for it.
    pub(crate) fn may_keep(&self, token: Token) -> bool {
        let has_others = |queue: &LocalQueue<T>| queue.remote_waiters == Some(true);
        self.holds.tokens().eq([token])
            && self.recalled == Recalled::No
            && !self.has_waiters()
            && !self.queues.iter().any(has_others)
    }

    /// Returns the number of callers that wait, without the readers that follow a try.
    pub(crate) fn waiting(&self) -> usize {
        let follows = |queue: &&LocalQueue<T>| self.read_try && queue.limit == Limit::UNLIMITED;
        let queues = self.queues.iter().filter(|queue| !follows(queue));
        queues.map(|queue| queue.waiters.len()).sum()
    }

    pub(crate) fn has_waiters(&self) -> bool {
        self.queues.iter().any(|queue| !queue.waiters.is_empty())
    }

    pub(crate) fn may_try(&self, limit: Limit) -> bool {
        !limit.is_exclusive() && self.queues.is_empty() && !self.holds.exclude(limit)
    }

    pub(crate) fn pop_front_if(
        &mut self,
        limit: Limit,
        condition: impl FnOnce(LockOptions, Option<bool>) -> bool,
    ) -> Option<Waiter<T>> {
        let others = self.queues.iter().filter(|queue| queue.limit != limit);
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

    /// Ends the try of a reader. If it `acquired` the lock, the readers that wait for its result join the
    /// hold while `may_join` returns `true` for their options; for the others, `start` starts the task that
    /// waits in the server queue.
    pub(crate) fn end_read_try(
        &mut self,
        acquired: bool,
        may_join: impl Fn(LockOptions) -> bool,
        start: impl FnOnce() -> Arc<Inbox<ClaimEvent>>,
    ) -> Followers<T> {
        let mut followers = Followers::default();
        while let Some(reader) = self.pop_front_if(Limit::UNLIMITED, |options, _| may_join(options))
        {
            followers.joined.push(reader);
        }
        let mut waiting = self.waiting();
        self.read_try = false;
        // Readers that cannot join the hold acquire the lock beside it, unless a waiter of another kind is in
        // the way.
        let enter_at_once = acquired && waiting == 0;
        let Some(queue) = self.queue(Limit::UNLIMITED) else {
            return followers;
        };
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
            (false, true) => self.remove_queue(Limit::UNLIMITED),
            (false, false) => queue.remote_wait = Some(start()),
            (true, true) => queue.settle(),
            (true, false) => {}
        }
        followers
    }

    pub(crate) fn is_unused(&self) -> bool {
        self.holds.is_empty() && self.queues.is_empty() && !self.read_try
    }

    pub(crate) fn queue(&mut self, limit: Limit) -> Option<&mut LocalQueue<T>> {
        self.queues.iter_mut().find(|queue| queue.limit == limit)
    }

    pub(crate) fn queue_or_insert(&mut self, limit: Limit) -> &mut LocalQueue<T> {
        let queues = &mut self.queues;
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

    pub(crate) fn remove_queue(&mut self, limit: Limit) {
        self.queues.retain(|queue| queue.limit != limit);
    }
}

impl<T> LocalQueue<T> {
    fn new(limit: Limit) -> Self {
        LocalQueue {
            limit,
            waiters: VecDeque::new(),
            remote_wait: None,
            to_leave: None,
            remote_waiters: None,
            last_error: None,
            remote_holder: Holder::default(),
        }
    }

    /// Adds a waiter at the place of its ticket.
    pub(crate) fn insert(&mut self, waiter: Waiter<T>) {
        if self.waiters.capacity() == 0 {
            // Most waiters are alone in their queue.
            self.waiters.reserve_exact(1);
        }
        let at = self.waiters.partition_point(|it| it.ticket < waiter.ticket);
        self.waiters.insert(at, waiter);
        self.to_leave = None;
    }

    pub(crate) fn remove(&mut self, ticket: u64) -> Option<Waiter<T>> {
        let at = self.waiters.binary_search_by_key(&ticket, |it| it.ticket);
        self.waiters.remove(at.ok()?)
    }

    pub(crate) fn pop_front(&mut self) -> Option<Waiter<T>> {
        let front = self.waiters.pop_front();
        self.settle();
        front
    }

    /// Lets the task leave the server queue if no caller waits.
    pub(crate) fn settle(&mut self) {
        if self.waiters.is_empty() && self.remote_wait.is_some() {
            self.to_leave.get_or_insert_with(PendingWork::new);
            self.wake();
        }
    }

    pub(crate) fn wake(&self) {
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
        self.offerer.make(result)?.ok()
    }
}

impl<T: Send + 'static> Waiter<T> {
    /// Returns the offer of the value that is going to be delivered.
    pub(crate) fn offered(&self) -> Arc<dyn Offered> {
        self.offerer.offered()
    }
}
