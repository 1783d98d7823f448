//! Waiting within the process: one line for each lock, in order of arrival.
//!
//! A released lock passes to the first in line without the server being asked. While the lock is
//! somewhere else, one claim stands in the server's queue for the whole line: see
//! [`queue`](crate::queue).

use crate::api::guard::LockGuard;
use crate::api::manager::Shared;
use crate::engine::error::EngineError;
use crate::engine::event::{Grant, News};
use crate::engine::token::Token;
use crate::error::LockError;
use crate::lock::hold::Hold;
use crate::lock::remote_wait;
use crate::options::Terms;
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
use tokio::time::Instant;

#[derive(Default)]
pub(crate) struct Waiters {
    lines: Mutex<HashMap<Arc<str>, Line>>,
    /// The claims of this process that stand in queues, and the locks granted to them.
    claims: Mutex<HashMap<Token, Arc<Inbox<Event>>>>,
    arrivals: AtomicU64,
}

/// All that a process knows of a lock that it holds or waits for.
#[derive(Default)]
struct Line {
    /// Whose the lock is, if it is this process'.
    held: Option<Token>,
    waiting: VecDeque<Waiter>,
    /// Reaches the task that stands in the server's queue for the line.
    queue: Option<Arc<Inbox<Event>>>,
    /// Whether other processes wait for the lock, if that is known.
    others: Option<bool>,
    /// Why the server can't be asked, if it can't.
    trouble: Option<EngineError>,
}

struct Waiter {
    number: u64,
    wish: Wish,
    seat: oneshot::Sender<Result<LockGuard, LockError>>,
}

/// Who waits, and for what.
#[derive(Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) terms: Terms,
    pub(crate) template: &'static str,
    pub(crate) asked: Instant,
}

/// What a line tells the task that stands in the queue for it.
#[derive(Debug)]
pub(crate) enum Event {
    Granted(Grant),
    /// The claim is the first in its queue now.
    First(Token),
    /// Other processes wait too.
    Others,
    /// The line has changed, or something may have been missed: look again.
    Look,
}

impl Waiters {
    /// Whether this process holds that lock, or waits for it, or has until a moment ago beside others.
    pub(crate) fn has_line(&self, name: &str) -> bool {
        self.lines().contains_key(name)
    }

    /// Whether this process holds that lock, or waits for it.
    pub(crate) fn is_taken(&self, name: &str) -> bool {
        let lines = self.lines();
        let line = lines.get(name);
        line.is_some_and(|line| line.held.is_some() || !line.waiting.is_empty())
    }

    /// Takes the last place in line.
    pub(crate) fn join(&self, shared: &Arc<Shared>, name: &Arc<str>, wish: Wish) -> Place {
        let (seat, taken) = oneshot::channel();
        let mut lines = self.lines();
        let line = lines.entry(name.clone()).or_default();
        if line.waiting.capacity() == 0 {
            // Most wait alone.
            line.waiting.reserve_exact(1);
        }
        // Over all lines: one that has ended and begun anew knows nobody by a number of the old one.
        let number = self.arrivals.fetch_add(1, Ordering::Relaxed);
        line.waiting.push_back(Waiter { number, wish, seat });
        if line.queue.is_none() {
            line.queue = Some(remote_wait::stand(shared.clone(), name.clone()));
        } else if line.waiting.len() == 1 {
            line.look();
        }
        Place {
            shared: shared.clone(),
            name: name.clone(),
            number,
            taken,
        }
    }

    /// Gives the lock to the first in line, if it may pass. False if nobody took it.
    pub(crate) fn pass_on(&self, hold: &Arc<Hold>) -> bool {
        let alone = hold.shared.engine.is_alone();
        loop {
            let waiter = {
                let mut lines = self.lines();
                let Some(line) = lines.get_mut(&hold.name) else {
                    return false;
                };
                let others = if alone { Some(false) } else { line.others };
                match line.waiting.front() {
                    Some(first) if hold.pass(first.wish.terms, others) => {}
                    _ => return false,
                }
                line.leave_first()
            };
            if waiter.is_some_and(|waiter| waiter.seated(hold)) {
                return true;
            }
        }
    }

    /// Gives the lock, which the server has just granted, to the first in line. False if nobody took
    /// it.
    pub(crate) fn seat_first(&self, name: &str, take: impl Fn(Terms) -> Option<Arc<Hold>>) -> bool {
        loop {
            let first = self.lines().get_mut(name).and_then(Line::leave_first);
            let Some(waiter) = first else {
                return false;
            };
            let Some(hold) = take(waiter.wish.terms) else {
                if let Some(line) = self.lines().get_mut(name) {
                    line.waiting.push_front(waiter);
                }
                return false;
            };
            if waiter.seated(&hold) {
                return true;
            }
        }
    }

    fn leave(&self, name: &str, number: u64) -> Option<Waiter> {
        let mut lines = self.lines();
        let line = lines.get_mut(name)?;
        let at = line
            .waiting
            .binary_search_by_key(&number, |waiter| waiter.number);
        let left = line.waiting.remove(at.ok()?);
        if line.waiting.is_empty() {
            line.look();
        }
        left
    }

    /// What the first in line asked for.
    pub(crate) fn first(&self, name: &str) -> Option<Terms> {
        let lines = self.lines();
        Some(lines.get(name)?.waiting.front()?.wish.terms)
    }

    /// Has nobody stand in the queue for the line any more. False if somebody has joined it.
    pub(crate) fn leave_queue(&self, name: &str) -> bool {
        let mut lines = self.lines();
        let Some(line) = lines.get_mut(name) else {
            return true;
        };
        if !line.waiting.is_empty() {
            return false;
        }
        line.queue = None;
        line.others = None;
        line.trouble = None;
        if line.held.is_none() {
            lines.remove(name);
        }
        true
    }

    pub(crate) fn is_empty(&self, name: &str) -> bool {
        let lines = self.lines();
        lines.get(name).is_none_or(|line| line.waiting.is_empty())
    }

    /// Sends all in line away.
    pub(crate) fn dismiss(&self, name: &str, error: &LockError) {
        let waiting = self
            .lines()
            .get_mut(name)
            .map(|line| std::mem::take(&mut line.waiting));
        for waiter in waiting.unwrap_or_default() {
            waiter.answer(Err(error.clone()));
        }
    }

    pub(crate) fn held(&self, name: &Arc<str>, token: Token) {
        let mut lines = self.lines();
        lines.entry(name.clone()).or_default().held = Some(token);
    }

    /// The lock is no longer this process'.
    pub(crate) fn vacated(&self, name: &str, token: Token) {
        let mut lines = self.lines();
        let Some(line) = lines.get_mut(name) else {
            return;
        };
        if line.held == Some(token) {
            line.held = None;
            line.look();
        }
        if line.held.is_none() && line.queue.is_none() {
            lines.remove(name);
        }
    }

    pub(crate) fn is_held(&self, name: &str) -> bool {
        let lines = self.lines();
        lines.get(name).is_some_and(|line| line.held.is_some())
    }

    pub(crate) fn others(&self, name: &str) -> Option<bool> {
        self.lines().get(name)?.others
    }

    /// What the queue has been found to be like.
    pub(crate) fn learn(&self, name: &str, others: Option<bool>, trouble: Option<EngineError>) {
        if let Some(line) = self.lines().get_mut(name) {
            line.others = others;
            line.trouble = trouble;
        }
    }

    pub(crate) fn trouble(&self, name: &str) -> Option<EngineError> {
        self.lines().get(name)?.trouble.clone()
    }

    /// Has grants of a claim sent there.
    pub(crate) fn expect(&self, token: Token, events: Arc<Inbox<Event>>) {
        self.claims().insert(token, events);
    }

    pub(crate) fn forget(&self, token: Token) {
        self.claims().remove(&token);
    }

    /// Takes what the engine tells. Returns a grant that nobody here expects.
    pub(crate) fn hear(&self, news: News) -> Option<Grant> {
        let claims = self.claims();
        match news {
            News::Granted(grant) => match claims.get(&grant.token) {
                Some(events) => {
                    events.put(Event::Granted(grant));
                    None
                }
                None => Some(grant),
            },
            News::First(token) => {
                if let Some(events) = claims.get(&token) {
                    events.put(Event::First(token));
                }
                None
            }
            News::Free(token) => {
                if let Some(events) = claims.get(&token) {
                    events.put(Event::Look);
                }
                None
            }
            News::Others(token) => {
                if let Some(events) = claims.get(&token) {
                    events.put(Event::Others);
                }
                None
            }
            News::Resumed => {
                drop(claims);
                self.look();
                None
            }
        }
    }

    /// Has every line looked after.
    pub(crate) fn look(&self) {
        for line in self.lines().values() {
            line.look();
        }
    }

    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.lines().is_empty() && self.claims().is_empty()
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Arc<str>, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<Token, Arc<Inbox<Event>>>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn leave_first(&mut self) -> Option<Waiter> {
        let first = self.waiting.pop_front();
        if self.waiting.is_empty() {
            self.look();
        }
        first
    }

    fn look(&self) {
        if let Some(queue) = &self.queue {
            queue.put(Event::Look);
        }
    }
}

impl Waiter {
    /// Hands the lock over; false if the waiter has gone.
    fn seated(self, hold: &Arc<Hold>) -> bool {
        let guard = LockGuard::new(hold.clone(), &self.wish);
        match self.answer(Ok(guard)) {
            Some(guard) => {
                guard.pass_by();
                false
            }
            None => true,
        }
    }

    /// Tells the waiter how its wait ended. The guard comes back if the waiter has gone.
    fn answer(self, answer: Result<LockGuard, LockError>) -> Option<LockGuard> {
        // The waker is that of the caller's executor. When it is called, the answer is there already.
        let send = || match self.seat.send(answer) {
            Err(Ok(guard)) => Some(guard),
            _ => None,
        };
        contain(send).flatten()
    }
}

/// A place in line. It resolves to the lock; dropping it leaves the line.
pub(crate) struct Place {
    shared: Arc<Shared>,
    name: Arc<str>,
    number: u64,
    taken: oneshot::Receiver<Result<LockGuard, LockError>>,
}

impl Future for Place {
    type Output = Result<LockGuard, LockError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.taken).poll(context).map(|taken| {
            // Nobody is dropped from a line unless the thread that serves it has ended.
            let key = || self.shared.key_of(&self.name).into();
            taken.unwrap_or_else(|_| Err(LockError::ShuttingDown { key: key() }))
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let left = self.shared.waiters.leave(&self.name, self.number);
        // It wakes the caller, which must not happen while the lines are locked.
        drop(left);
    }
}
