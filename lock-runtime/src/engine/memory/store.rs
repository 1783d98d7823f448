//! The table of locks and queues that all managers in the process share.

use crate::engine::event::{EngineEvent, EventHandler, Grant};
use crate::engine::memory::asks::Listeners;
use crate::engine::memory::reports::Reports;
use crate::engine::request::{Claim, ServerTime};
use crate::engine::timeouts::{GRACE, GRANT_TTL, WAKE_TTL};
use crate::engine::token::Token;
use crate::limit::Limit;
use crate::process::ProcessId;
use crate::util::clock::{Clock, Timestamp};
use crate::util::sync::{Mutex, MutexGuard};
use once_cell::sync::Lazy;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Store {
    pub(crate) clock: Clock,
    pub(crate) state: Mutex<State>,
    pub(crate) reports: Reports,
    pub(crate) listeners: Listeners,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) start: Option<Timestamp>,
    pub(crate) held: HashMap<Arc<str>, Vec<Holder>>,
    pub(crate) queues: HashMap<Arc<str>, VecDeque<Waiter>>,
    pub(crate) last_fencing_token: u64,
    /// The tokens whose locks were taken from them, and when.
    pub(crate) taken: HashMap<Token, Timestamp>,
}

/// A holder's token, and the handler of its process.
pub(crate) type Owner = (Token, EventHandler);

pub(crate) struct Holder {
    /// `None` while the lock is reserved for the first waiter.
    owner: Option<Owner>,
    pub(crate) since: Timestamp,
    pub(crate) ttl: Duration,
    /// `true` if newcomers find the lock held for some time after the lease.
    pub(crate) outlasts: bool,
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
    /// Leases of a new store are measured with `clock`.
    pub(crate) fn open(name: &str, clock: Clock) -> Arc<Store> {
        static STORES: Lazy<Mutex<HashMap<String, Weak<Store>>>> = Lazy::new(Mutex::default);

        if name.is_empty() {
            return Store::with_clock(clock);
        }
        let mut stores = STORES.lock();
        if let Some(store) = stores.get(name).and_then(Weak::upgrade) {
            return store;
        }
        let store = Store::with_clock(clock);
        stores.retain(|_, store| store.strong_count() > 0);
        stores.insert(name.to_owned(), Arc::downgrade(&store));
        store
    }

    pub(crate) fn with_clock(clock: Clock) -> Arc<Store> {
        Arc::new(Store {
            clock,
            state: Mutex::default(),
            reports: Reports::default(),
            listeners: Listeners::default(),
        })
    }

    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        let (mut state, now) = self.lock();
        let held: Vec<_> = state.held.keys().cloned().collect();
        let is_free = |name: &Arc<str>| state.holders(name, now).is_empty();
        held.iter().all(is_free) && state.queues.is_empty()
    }

    /// Returns the handler of that process, if it holds the lock alone. It must be called without the mutex:
    /// a process that keeps the lock releases it at once.
    pub(crate) fn sole_owner(&self, name: &str, process: ProcessId) -> Option<EventHandler> {
        let (mut state, now) = self.lock();
        let [holder] = state.holders(name, now) else {
            return None;
        };
        let (token, handler) = holder.owner.as_ref()?;
        (token.process() == process).then(|| handler.clone())
    }

    pub(crate) fn lock(&self) -> (MutexGuard<'_, State>, Timestamp) {
        let state = self.state.lock();
        (state, self.clock.now())
    }
}

impl State {
    /// Returns the holders, of which those whose leases have ended are removed.
    pub(crate) fn holders(&mut self, name: &str, now: Timestamp) -> &[Holder] {
        if let Some(held) = self.held.get_mut(name) {
            held.retain(|holder| !holder.left(now).is_zero());
            if held.is_empty() {
                self.held.remove(name);
            }
        }
        self.held.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns `true` if newcomers find the lock held, as they may after its last lease has ended.
    pub(crate) fn is_found(&self, name: &str, now: Timestamp) -> bool {
        let mut held = self.held.get(name).into_iter().flatten();
        held.any(|holder| holder.is_found(now))
    }

    /// Returns the claim's part in the lock, if it holds the lock.
    pub(crate) fn held_by(&mut self, claim: &Claim, now: Timestamp) -> Option<&mut Holder> {
        let mut held = self.held.get_mut(&claim.name)?.iter_mut();
        held.find(|holder| holder.token() == Some(claim.token) && !holder.left(now).is_zero())
    }

    /// Lets newcomers find the lock held after its last lease has ended, too.
    pub(crate) fn outlast_leases(&mut self, name: &str) {
        let held = self.held.get_mut(name).into_iter().flatten();
        held.for_each(|holder| holder.outlasts = true);
    }

    /// Returns `true` if there may be one more holder with that limit. A reservation counts as no holder.
    pub(crate) fn fits(&mut self, name: &str, limit: Limit, now: Timestamp) -> bool {
        let held = self.holders(name, now).iter().filter_map(Holder::token);
        let count = held.clone().count();
        let lowest = held.map(Token::limit).min();
        limit.fits(count, lowest.unwrap_or(Limit::UNLIMITED))
    }

    /// Adds a holder, or the reservation for the first waiter, which ends with the next holder.
    pub(crate) fn grant(
        &mut self,
        name: &Arc<str>,
        owner: Option<Owner>,
        ttl: Duration,
        now: Timestamp,
    ) {
        self.admit(name, owner, ttl, now);
        self.outlast_leases(name);
    }

    /// Adds a holder that has not waited.
    pub(crate) fn admit(
        &mut self,
        name: &Arc<str>,
        owner: Option<Owner>,
        ttl: Duration,
        now: Timestamp,
    ) {
        let held = self.held.entry(name.clone()).or_default();
        held.retain(|holder| holder.owner.is_some() && !holder.left(now).is_zero());
        held.push(Holder {
            owner,
            since: now,
            ttl,
            outlasts: false,
        });
        if held.len() > 1 {
            self.outlast_leases(name);
        }
    }

    /// Removes a holder. Returns `true` if it held the lock.
    pub(crate) fn vacate(&mut self, claim: &Claim, now: Timestamp) -> bool {
        let ours = self.held_by(claim, now).is_some();
        if let Some(held) = self.held.get_mut(&claim.name).filter(|_| ours) {
            held.retain(|holder| holder.token() != Some(claim.token));
        }
        if !self.is_found(&claim.name, now) {
            self.held.remove(&claim.name);
        }
        ours
    }

    pub(crate) fn queue(&mut self, name: &Arc<str>) -> &mut VecDeque<Waiter> {
        self.queues.entry(name.clone()).or_default()
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

    /// Grants the lock to the first waiter that is alive, and to those right behind it, as long as each fits
    /// beside the holders. Returns `true` if any waiter has left the queue.
    pub(crate) fn grant_next(&mut self, name: &Arc<str>, now: Timestamp) -> bool {
        let at = self.server_time(now);
        let mut changed = false;
        while !self.is_reserved(name, now)
            && self.fits(name, Limit::UNLIMITED, now)
            && let Some(first) = self.queue(name).front()
        {
            let (alive, token, lease) =
                (first.is_alive(now), first.token, first.ttl.min(GRANT_TTL));
            if alive && !self.fits(name, token.limit(), now) {
                break;
            }
            changed = true;
            let Some(first) = self.queue(name).pop_front() else {
                break;
            };
            let holds = self
                .holders(name, now)
                .iter()
                .any(|it| it.token() == Some(token));
            if alive && !holds {
                (first.handler)(EngineEvent::Granted(Grant {
                    name: name.clone(),
                    token,
                    server_time: at,
                    lease,
                }));
                self.grant(name, Some((token, first.handler)), lease, now);
            }
        }
        if changed {
            notify_front(self.queue(name), now);
        }
        self.forget_empty(name);
        changed
    }

    /// Returns `true` if the lock has no holder, and only the first waiter can acquire it.
    pub(crate) fn is_reserved(&mut self, name: &str, now: Timestamp) -> bool {
        let held = self.holders(name, now);
        held.iter().any(|holder| holder.owner.is_none())
    }

    pub(crate) fn server_time(&mut self, now: Timestamp) -> ServerTime {
        ServerTime(now.elapsed_since(*self.start.get_or_insert(now)))
    }
}

impl Holder {
    pub(crate) fn token(&self) -> Option<Token> {
        self.owner.as_ref().map(|(token, _)| *token)
    }

    /// Returns the rest of the lease.
    pub(crate) fn left(&self, now: Timestamp) -> Duration {
        self.ttl.saturating_sub(now.elapsed_since(self.since))
    }

    fn is_found(&self, now: Timestamp) -> bool {
        let grace = if self.outlasts { GRACE } else { Duration::ZERO };
        now.elapsed_since(self.since) < self.ttl.saturating_add(grace)
    }
}

impl Waiter {
    pub(crate) fn is_alive(&self, now: Timestamp) -> bool {
        now.elapsed_since(self.last_seen) <= self.patience
    }

    /// Notifies the waiter to poll at once. Returns `false` if it is dead already.
    pub(crate) fn wake(&mut self, now: Timestamp) -> bool {
        let alive = self.is_alive(now);
        if alive {
            let left = self
                .patience
                .saturating_sub(now.elapsed_since(self.last_seen));
            (self.last_seen, self.patience) = (now, left.min(WAKE_TTL));
            (self.handler)(EngineEvent::MayBeFree(self.token));
        }
        alive
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

/// Notifies all waiters before the claim to poll at once: a waiter that does not poll soon counts as dead.
/// Dead waiters leave the queue.
pub(crate) fn wake_before(queue: &mut VecDeque<Waiter>, claim: Token, now: Timestamp) {
    let before = queue.iter().take_while(|waiter| waiter.token != claim);
    let mut before = before.count();
    queue.retain_mut(|waiter| {
        let stays = before == 0 || waiter.wake(now);
        before = before.saturating_sub(1);
        stays
    });
}
