//! What this process knows of one lock: with which tokens it holds the lock, and which of its callers wait.

use crate::engine::error::EngineError;
use crate::engine::token::Token;
use crate::error::{Holder, LockError};
use crate::limit::Limit;
use crate::lock::claim_events::ClaimEvent;
use crate::lock::offer::{Offered, Offerer};
use crate::options::LockOptions;
use crate::site::Site;
use crate::util::inbox::Inbox;
use crate::util::thread_end::Debt;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::time::Instant;

/// The state of a lock that this process holds or waits for.
pub(crate) struct LocalLock<T> {
    /// The token of a hold with which this process holds the lock.
    pub(crate) holder: Option<Token>,
    /// A caller tries to acquire the lock for reading, and serves the other readers if it succeeds.
    pub(crate) read_try: bool,
    pub(crate) recalled: Recalled,
    /// Boxed: most locks have one holder, and no caller waits for them.
    more: Option<Box<More<T>>>,
}

/// Whether another process waits for the lock, so that this one does not keep it.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Recalled {
    No,
    /// A recall may have been missed.
    Perhaps,
    Yes,
}

struct More<T> {
    /// The tokens of further holds, that share the lock, or whose lease ended before another one was recorded here.
    holders: Vec<Token>,
    /// The guard of the hold with that token, which this process keeps for its next call.
    kept: Option<(Token, T)>,
    /// One for each limit that callers wait with.
    queues: Vec<LocalQueue<T>>,
}

/// The callers that wait for a lock with one limit.
pub(crate) struct LocalQueue<T> {
    pub(crate) limit: Limit,
    pub(crate) waiters: VecDeque<Waiter<T>>,
    /// The inbox of the task that waits in the server queue for this queue.
    pub(crate) remote_wait: Option<Arc<Inbox<ClaimEvent>>>,
    /// No caller waits any more, and that task has not left the server queue yet.
    pub(crate) to_leave: Option<Debt>,
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
            holder: None,
            read_try: false,
            recalled: Recalled::No,
            more: None,
        }
    }
}

impl<T> Default for More<T> {
    fn default() -> Self {
        More {
            holders: Vec::new(),
            kept: None,
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
    pub(crate) fn holders(&self) -> impl Iterator<Item = Token> {
        let further = self.more.iter().flat_map(|more| &more.holders);
        self.holder.iter().chain(further).copied()
    }

    pub(crate) fn queues(&self) -> &[LocalQueue<T>] {
        self.more.as_ref().map_or(&[], |more| &more.queues)
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.kept.is_some())
    }

    /// Returns `true` if the hold with that token alone holds the lock, and no other process is known to wait for it.
    pub(crate) fn may_keep(&self, token: Token) -> bool {
        let has_others = |queue: &LocalQueue<T>| queue.remote_waiters == Some(true);
        self.holders().eq([token])
            && self.recalled == Recalled::No
            && !self.has_waiters()
            && !self.queues().iter().any(has_others)
    }

    pub(crate) fn keep(&mut self, token: Token, guard: T) {
        self.more.get_or_insert_default().kept = Some((token, guard));
    }

    /// Returns the kept guard: if it is kept with that token, or whatever the token.
    pub(crate) fn take_kept(&mut self, token: Option<Token>) -> Option<T> {
        let kept = &mut self.more.as_mut()?.kept;
        let (_, guard) = kept.take_if(|(kept, _)| token.is_none_or(|token| token == *kept))?;
        Some(guard)
    }

    pub(crate) fn add_holder(&mut self, token: Token) {
        if self.holder.is_none() {
            self.holder = Some(token);
        } else if self.holders().all(|holder| holder != token) {
            self.more.get_or_insert_default().holders.push(token);
            // Who waited for the holds before may have its own now; if not, it is seen again.
            self.recalled = Recalled::No;
        }
    }

    /// Returns `true` if the hold with that token was recorded.
    pub(crate) fn remove_holder(&mut self, token: Token) -> bool {
        let was_recorded = self.holders().any(|holder| holder == token);
        let further = self.more.as_mut().map(|more| &mut more.holders);
        if self.holder == Some(token) {
            self.holder = further.and_then(Vec::pop);
        } else if let Some(further) = further {
            further.retain(|holder| *holder != token);
        }
        if self.holder.is_none() {
            self.recalled = Recalled::No;
        }
        was_recorded
    }

    /// Returns the number of callers that wait, without the readers that follow a try.
    pub(crate) fn waiting(&self) -> usize {
        let follows = |queue: &&LocalQueue<T>| self.read_try && queue.limit == Limit::UNLIMITED;
        let queues = self.queues().iter().filter(|queue| !follows(queue));
        queues.map(|queue| queue.waiters.len()).sum()
    }

    pub(crate) fn has_waiters(&self) -> bool {
        self.queues().iter().any(|queue| !queue.waiters.is_empty())
    }

    pub(crate) fn may_try(&self, limit: Limit) -> bool {
        !limit.is_exclusive() && self.queues().is_empty() && !self.is_held_exclusively()
    }

    pub(crate) fn pop_front_if(
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

    /// Ends the try of a reader. If it `acquired` the lock, the readers that wait for its result join the hold while
    /// `may_join` returns `true` for their options; for the others, `start` starts the task that waits in the server
    /// queue.
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
        // Readers that cannot join the hold acquire the lock beside it, unless a waiter of another kind is in the way.
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

    pub(crate) fn is_held_exclusively(&self) -> bool {
        self.holders().any(|holder| holder.limit().is_exclusive())
    }

    /// Returns `true` if a hold of this process is in the way of every other one with that limit.
    pub(crate) fn excludes(&self, limit: Limit) -> bool {
        self.is_held_exclusively() || limit.is_exclusive() && self.holder.is_some()
    }

    pub(crate) fn is_unused(&self) -> bool {
        self.holder.is_none() && self.queues().is_empty() && !self.read_try
    }

    pub(crate) fn queue(&mut self, limit: Limit) -> Option<&mut LocalQueue<T>> {
        let queues = &mut self.more.as_mut()?.queues;
        queues.iter_mut().find(|queue| queue.limit == limit)
    }

    pub(crate) fn queue_or_insert(&mut self, limit: Limit) -> &mut LocalQueue<T> {
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

    pub(crate) fn remove_queue(&mut self, limit: Limit) {
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
            self.to_leave.get_or_insert_with(Debt::new);
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
