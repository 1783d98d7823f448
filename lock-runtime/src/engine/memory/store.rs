//! The table of locks and queues that all managers in the process share.

use crate::engine::event::{EngineEvent, EventHandler, Grant};
use crate::engine::request::{Claim, ServerTime};
use crate::engine::timeouts::{GRANT_TTL, WAKE_TTL};
use crate::engine::token::Token;
use crate::util::clock::{Clock, Timestamp};
use crate::util::sync::{Mutex, MutexGuard};
use once_cell::sync::Lazy;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Store {
    pub(crate) clock: Clock,
    pub(crate) state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) start: Option<Timestamp>,
    pub(crate) held: HashMap<Arc<str>, Holder>,
    pub(crate) queues: HashMap<Arc<str>, VecDeque<Waiter>>,
    pub(crate) last_fencing_token: u64,
}

pub(crate) struct Holder {
    /// `None` while the lock is reserved for the first waiter.
    pub(crate) token: Option<Token>,
    pub(crate) since: Timestamp,
    pub(crate) ttl: Duration,
}

pub(crate) struct Waiter {
    pub(crate) token: Token,
    pub(crate) ttl: Duration,
    pub(crate) last_seen: Timestamp,
    /// How long the waiter counts as alive after `last_seen`.
    pub(crate) patience: Duration,
    pub(crate) handler: EventHandler,
}

impl Store {
    /// Returns the store of that name, which the whole process shares; without a name, returns a new one.
    pub(crate) fn open(name: &str) -> Arc<Store> {
        static STORES: Lazy<Mutex<HashMap<String, Weak<Store>>>> = Lazy::new(Mutex::default);

        if name.is_empty() {
            return Arc::default();
        }
        let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = stores.get(name).and_then(Weak::upgrade) {
            return store;
        }
        let store = Arc::default();
        stores.retain(|_, store| store.strong_count() > 0);
        stores.insert(name.to_owned(), Arc::downgrade(&store));
        store
    }

    #[cfg(test)]
    pub(crate) fn with_clock(clock: Clock) -> Arc<Store> {
        Arc::new(Store {
            clock,
            state: Mutex::default(),
        })
    }

    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        let (mut state, now) = self.lock();
        let held: Vec<_> = state.held.keys().cloned().collect();
        state.queues.is_empty() && held.iter().all(|name| state.holder(name, now).is_none())
    }

    pub(crate) fn lock(&self) -> (MutexGuard<'_, State>, Timestamp) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state, self.clock.now())
    }
}

impl State {
    pub(crate) fn holder(&mut self, name: &str, now: Timestamp) -> Option<&mut Holder> {
        let held = self.held.get_mut(name)?;
        (now.elapsed_since(held.since) < held.ttl).then_some(held)
    }

    /// Returns the lock if the claim owns it.
    pub(crate) fn held_by(&mut self, claim: &Claim, now: Timestamp) -> Option<&mut Holder> {
        let held = self.holder(&claim.name, now)?;
        (held.token == Some(claim.token)).then_some(held)
    }

    pub(crate) fn grant(
        &mut self,
        name: &Arc<str>,
        token: Option<Token>,
        ttl: Duration,
        now: Timestamp,
    ) {
        let held = Holder {
            token,
            since: now,
            ttl,
        };
        self.held.insert(name.clone(), held);
    }

    pub(crate) fn queue(&mut self, name: &Arc<str>) -> &mut VecDeque<Waiter> {
        self.queues.entry(name.clone()).or_default()
    }

    pub(crate) fn dequeue(&mut self, claim: &Claim, now: Timestamp) {
        if self.remove(claim) {
            notify_front(self.queue(&claim.name), now);
            self.forget_empty(&claim.name);
        }
    }

    /// Removes the claim from the queue; returns `true` if it was the first.
    pub(crate) fn remove(&mut self, claim: &Claim) -> bool {
        let queue = self.queue(&claim.name);
        let first = queue.front().map(|first| first.token);
        queue.retain(|waiter| waiter.token != claim.token);
        self.forget_empty(&claim.name);
        first == Some(claim.token)
    }

    pub(crate) fn forget_empty(&mut self, name: &Arc<str>) {
        if self.queue(name).is_empty() {
            self.queues.remove(name);
        }
    }

    /// Grants the lock, which is free, to the first waiter that is alive.
    pub(crate) fn grant_next(&mut self, name: &Arc<str>, now: Timestamp) {
        let at = self.server_time(now);
        let queue = self.queue(name);
        let first = loop {
            match queue.pop_front() {
                Some(first) if !first.is_alive(now) => {}
                first => break first,
            }
        };
        if let Some(first) = first {
            let lease = first.ttl.min(GRANT_TTL);
            (first.handler)(EngineEvent::Granted(Grant {
                name: name.clone(),
                token: first.token,
                server_time: at,
                lease,
            }));
            notify_front(queue, now);
            self.grant(name, Some(first.token), lease, now);
        }
        self.forget_empty(name);
    }

    pub(crate) fn server_time(&mut self, now: Timestamp) -> ServerTime {
        ServerTime(now.elapsed_since(*self.start.get_or_insert(now)))
    }
}

impl Waiter {
    pub(crate) fn is_alive(&self, now: Timestamp) -> bool {
        now.elapsed_since(self.last_seen) <= self.patience
    }
}

/// Notifies the first waiter that is alive. Dead waiters before it leave the queue.
pub(crate) fn notify_front(queue: &mut VecDeque<Waiter>, now: Timestamp) {
    while let Some(first) = queue.front() {
        if first.is_alive(now) {
            return (first.handler)(EngineEvent::AtFront(first.token));
        }
        queue.pop_front();
    }
}

/// Notifies all waiters before the claim to poll at once, since the lock is free: a waiter that does not poll
/// soon counts as dead. Dead waiters leave the queue.
pub(crate) fn wake_before(queue: &mut VecDeque<Waiter>, claim: Token, now: Timestamp) {
    let before = queue.iter().take_while(|waiter| waiter.token != claim);
    let mut before = before.count();
    queue.retain(|waiter| {
        let stays = before == 0 || waiter.is_alive(now);
        before = before.saturating_sub(1);
        stays
    });
    for waiter in queue.iter_mut().take_while(|waiter| waiter.token != claim) {
        let left = waiter
            .patience
            .saturating_sub(now.elapsed_since(waiter.last_seen));
        (waiter.last_seen, waiter.patience) = (now, left.min(WAKE_TTL));
        (waiter.handler)(EngineEvent::MayBeFree(waiter.token));
    }
}
