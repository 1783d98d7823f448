//! The embedded engine: locks within one process, for tests and a first try.

#[cfg(test)]
pub(crate) mod model_tests;

use crate::engine::error::EngineError;
use crate::engine::event::{Ear, Grant, News};
use crate::engine::request::{ALIVE, Answer, Claim, GRANT, ServerTime, Standing, WOKEN, Waiting};
use crate::engine::token::Token;
use crate::engine::traits::Engine;
use crate::util::clock::{Clock, Moment};
use crate::util::sync::{Mutex, MutexGuard};
use once_cell::sync::Lazy;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// One manager's access to a store.
pub(crate) struct Memory {
    store: Arc<Store>,
    ear: Ear,
    alone: bool,
}

#[derive(Default)]
pub(crate) struct Store {
    clock: Clock,
    locks: Mutex<Locks>,
}

#[derive(Default)]
struct Locks {
    start: Option<Moment>,
    held: HashMap<Arc<str>, Held>,
    queues: HashMap<Arc<str>, VecDeque<Waiter>>,
    last_fencing_token: u64,
}

struct Held {
    /// The holder; none while it is reserved for the first in the queue.
    token: Option<Token>,
    since: Moment,
    ttl: Duration,
}

struct Waiter {
    token: Token,
    ttl: Duration,
    seen: Moment,
    /// For how long it counts as alive since then.
    patience: Duration,
    ear: Ear,
}

impl Store {
    /// The store of that name, shared by all in the process who ask for it; without a name, a new
    /// one.
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
            locks: Mutex::default(),
        })
    }

    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        let (mut locks, now) = self.locks();
        let held: Vec<_> = locks.held.keys().cloned().collect();
        locks.queues.is_empty() && held.iter().all(|name| locks.holder(name, now).is_none())
    }

    fn locks(&self) -> (MutexGuard<'_, Locks>, Moment) {
        let locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        (locks, self.clock.now())
    }
}

impl Memory {
    pub(crate) fn new(store: Arc<Store>, ear: Ear) -> Memory {
        Memory {
            store,
            ear,
            alone: false,
        }
    }

    /// Access to the store of that name; alone, if it has none.
    pub(crate) fn open(name: &str, ear: Ear) -> Memory {
        Memory {
            alone: name.is_empty(),
            ..Memory::new(Store::open(name), ear)
        }
    }

    fn acquire(&self, claim: &Claim) -> bool {
        let (mut locks, now) = self.store.locks();
        let free = locks.holder(&claim.name, now).is_none();
        if free {
            locks.give(&claim.name, Some(claim.token), claim.ttl, now);
        }
        free
    }

    fn wait(&self, claim: &Claim) -> Standing {
        let (mut locks, now) = self.store.locks();
        let vacant = locks.holder(&claim.name, now).is_none();
        if vacant {
            wake_before(locks.queue(&claim.name), claim.token, now);
        }
        if vacant
            || locks
                .holder(&claim.name, now)
                .is_some_and(|it| it.token.is_none())
        {
            let first = locks.queue(&claim.name).front();
            if first.is_none_or(|first| first.token == claim.token) {
                locks.remove(claim);
                locks.give(&claim.name, Some(claim.token), claim.ttl, now);
                return Standing::Granted(claim.ttl);
            }
            if vacant {
                locks.give(&claim.name, None, WOKEN, now);
            }
        }
        let holder = locks.holder(&claim.name, now);
        let (holder, holder_left) = holder.map_or((None, Duration::ZERO), |holder| {
            let left = holder.ttl.saturating_sub(now.since(holder.since));
            (holder.token, left)
        });
        if holder == Some(claim.token) {
            return Standing::Adopted(holder_left);
        }
        let at = locks.time(now);
        let queue = locks.queue(&claim.name);
        let place = queue.iter().position(|waiter| waiter.token == claim.token);
        match place {
            Some(place) => (queue[place].seen, queue[place].patience) = (now, ALIVE),
            None => queue.push_back(Waiter {
                token: claim.token,
                ttl: claim.ttl,
                seen: now,
                patience: ALIVE,
                ear: self.ear.clone(),
            }),
        }
        if place.is_none()
            && let [other, _] = queue.make_contiguous()
        {
            (other.ear)(News::Others(other.token));
        }
        Standing::Waiting(Waiting {
            at,
            holder_left,
            ahead: place.unwrap_or(queue.len() - 1) as u64,
            others: queue.len() > 1,
        })
    }

    fn cancel(&self, claim: &Claim) -> bool {
        let (mut locks, now) = self.store.locks();
        locks.leave(claim, now);
        drop(locks);
        self.release(claim)
    }

    fn release(&self, claim: &Claim) -> bool {
        let (mut locks, now) = self.store.locks();
        let ours = locks.of(claim, now).is_some();
        if ours {
            locks.held.remove(&claim.name);
        }
        if locks.holder(&claim.name, now).is_none() {
            locks.hand_on(&claim.name, now);
        }
        ours
    }

    fn renew(&self, claim: &Claim) -> bool {
        let (mut locks, now) = self.store.locks();
        let Some(held) = locks.of(claim, now) else {
            return false;
        };
        held.since = now;
        held.ttl = claim.ttl;
        true
    }

    fn fencing_token(&self, claim: &Claim) -> Option<u64> {
        let (mut locks, now) = self.store.locks();
        locks.of(claim, now)?;
        locks.last_fencing_token += 1;
        Some(locks.last_fencing_token)
    }
}

impl Locks {
    fn holder(&mut self, name: &str, now: Moment) -> Option<&mut Held> {
        let held = self.held.get_mut(name)?;
        (now.since(held.since) < held.ttl).then_some(held)
    }

    /// The lock, if it is the claim's.
    fn of(&mut self, claim: &Claim, now: Moment) -> Option<&mut Held> {
        let held = self.holder(&claim.name, now)?;
        (held.token == Some(claim.token)).then_some(held)
    }

    fn give(&mut self, name: &Arc<str>, token: Option<Token>, ttl: Duration, now: Moment) {
        let held = Held {
            token,
            since: now,
            ttl,
        };
        self.held.insert(name.clone(), held);
    }

    fn queue(&mut self, name: &Arc<str>) -> &mut VecDeque<Waiter> {
        self.queues.entry(name.clone()).or_default()
    }

    fn leave(&mut self, claim: &Claim, now: Moment) {
        if self.remove(claim) {
            tell_first(self.queue(&claim.name), now);
            self.forget_empty(&claim.name);
        }
    }

    /// Whether it was the first in the queue.
    fn remove(&mut self, claim: &Claim) -> bool {
        let queue = self.queue(&claim.name);
        let first = queue.front().map(|first| first.token);
        queue.retain(|waiter| waiter.token != claim.token);
        self.forget_empty(&claim.name);
        first == Some(claim.token)
    }

    fn forget_empty(&mut self, name: &Arc<str>) {
        if self.queue(name).is_empty() {
            self.queues.remove(name);
        }
    }

    /// Grants the lock, which nobody holds, to the first in the queue that is alive.
    fn hand_on(&mut self, name: &Arc<str>, now: Moment) {
        let at = self.time(now);
        let queue = self.queue(name);
        let first = loop {
            match queue.pop_front() {
                Some(first) if !first.is_alive(now) => {}
                first => break first,
            }
        };
        if let Some(first) = first {
            let lease = first.ttl.min(GRANT);
            (first.ear)(News::Granted(Grant {
                name: name.clone(),
                token: first.token,
                at,
                lease,
            }));
            tell_first(queue, now);
            self.give(name, Some(first.token), lease, now);
        }
        self.forget_empty(name);
    }

    fn time(&mut self, now: Moment) -> ServerTime {
        ServerTime(now.since(*self.start.get_or_insert(now)))
    }
}

impl Waiter {
    fn is_alive(&self, now: Moment) -> bool {
        now.since(self.seen) <= self.patience
    }
}

/// Tells the first in the queue that is alive.
fn tell_first(queue: &mut VecDeque<Waiter>, now: Moment) {
    while let Some(first) = queue.front() {
        if first.is_alive(now) {
            return (first.ear)(News::First(first.token));
        }
        queue.pop_front();
    }
}

/// The lock is free, and yet in the queue: whoever stands before the claim is to ask at once, and counts as
/// dead soon unless it does. The dead leave the queue.
fn wake_before(queue: &mut VecDeque<Waiter>, claim: Token, now: Moment) {
    let before = queue.iter().take_while(|waiter| waiter.token != claim);
    let mut before = before.count();
    queue.retain(|waiter| {
        let stays = before == 0 || waiter.is_alive(now);
        before = before.saturating_sub(1);
        stays
    });
    for waiter in queue.iter_mut().take_while(|waiter| waiter.token != claim) {
        let left = waiter.patience.saturating_sub(now.since(waiter.seen));
        (waiter.seen, waiter.patience) = (now, left.min(WOKEN));
        (waiter.ear)(News::Free(waiter.token));
    }
}

fn at_once<'a, T: Send + 'a>(answer: T) -> Answer<'a, T> {
    Box::pin(std::future::ready(Ok(answer)))
}

impl Engine for Memory {
    fn acquire<'a>(&'a self, claim: &'a Claim, _: Instant) -> Answer<'a, bool> {
        at_once(self.acquire(claim))
    }

    // Nothing is ever under way here, so that no request can be late.
    fn wait<'a>(
        &'a self,
        claim: &'a Claim,
        _: Option<ServerTime>,
        _: Instant,
    ) -> Answer<'a, Standing> {
        at_once(self.wait(claim))
    }

    fn cancel<'a>(&'a self, claim: &'a Claim, _: bool, _: Instant) -> Answer<'a, bool> {
        at_once(self.cancel(claim))
    }

    fn is_alone(&self) -> bool {
        self.alone
    }

    fn release<'a>(&'a self, claim: &'a Claim, _: Instant) -> Answer<'a, bool> {
        at_once(self.release(claim))
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        _: Instant,
    ) -> Answer<'a, Vec<Result<bool, EngineError>>> {
        at_once(claims.iter().map(|claim| Ok(self.renew(claim))).collect())
    }

    fn fencing_token<'a>(&'a self, claim: &'a Claim, _: Instant) -> Answer<'a, Option<u64>> {
        at_once(self.fencing_token(claim))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn memory(store: &Arc<Store>) -> (Memory, mpsc::Receiver<News>) {
        let (sender, news) = mpsc::channel();
        let ear: Ear = Arc::new(move |told| drop(sender.send(told)));
        (Memory::new(store.clone(), ear), news)
    }

    fn alone() -> Memory {
        memory(&Store::open("")).0
    }

    fn claim(name: &str) -> Claim {
        Claim {
            replicas: 0,
            name: name.into(),
            token: Token::fresh(),
            ttl: Duration::from_secs(30),
        }
    }

    fn waits(standing: &Standing) -> bool {
        matches!(standing, Standing::Waiting(_))
    }

    #[test]
    fn a_held_lock_is_not_given_again_until_it_is_released() {
        let memory = alone();
        let (first, second) = (claim("a"), claim("a"));
        assert!(memory.acquire(&first));
        assert!(!memory.acquire(&second));
        assert!(!memory.release(&second));
        assert!(memory.release(&first));
        assert!(!memory.release(&first));
        assert!(memory.acquire(&second));
    }

    #[test]
    fn a_lease_that_ran_out_belongs_to_nobody() {
        let clock = Clock::manual();
        let (memory, _news) = memory(&Store::with_clock(clock.clone()));
        let (first, second) = (claim("a"), claim("a"));
        assert!(memory.acquire(&first));
        clock.advance(Duration::from_secs(29), Duration::from_secs(29));
        assert!(memory.renew(&first));
        clock.advance(Duration::from_secs(30), Duration::from_secs(30));
        assert!(!memory.renew(&first));
        assert_eq!(memory.fencing_token(&first), None);
        assert!(memory.acquire(&second));
    }

    #[test]
    fn a_released_lock_goes_to_who_came_first() {
        let store = Store::open("");
        let (one, news_of_one) = memory(&store);
        let (two, news_of_two) = memory(&store);
        let (holder, first, second) = (claim("a"), claim("a"), claim("a"));
        assert!(one.acquire(&holder));
        assert!(waits(&two.wait(&first)));
        assert!(waits(&one.wait(&second)));
        assert!(matches!(news_of_two.try_recv(), Ok(News::Others(token)) if token == first.token));
        assert!(waits(&two.wait(&first)), "asking again keeps the place");
        assert!(one.release(&holder));
        assert!(!one.acquire(&holder), "it was passed on, and never free");
        let Ok(News::Granted(grant)) = news_of_two.try_recv() else {
            panic!("the first is told");
        };
        assert_eq!((grant.token, grant.lease), (first.token, GRANT));
        assert!(matches!(news_of_one.try_recv(), Ok(News::First(token)) if token == second.token));
        assert!(two.cancel(&first));
        assert!(matches!(news_of_one.try_recv(), Ok(News::Granted(_))));
        assert!(one.release(&second));
        let (locks, _) = store.locks();
        assert!(locks.queues.is_empty() && locks.held.is_empty());
    }

    #[test]
    fn who_has_died_in_the_queue_is_passed_over() {
        let clock = Clock::manual();
        let (memory, news) = memory(&Store::with_clock(clock.clone()));
        let (holder, dead, alive) = (claim("a"), claim("a"), claim("a"));
        assert!(memory.acquire(&holder));
        assert!(waits(&memory.wait(&dead)));
        assert!(waits(&memory.wait(&alive)));
        clock.advance(ALIVE, ALIVE);
        assert!(memory.renew(&holder));
        assert!(waits(&memory.wait(&alive)));
        clock.advance(Duration::from_secs(1), Duration::ZERO);
        assert!(memory.release(&holder));
        let granted = news.try_iter().find_map(|news| match news {
            News::Granted(grant) => Some(grant.token),
            _ => None,
        });
        assert_eq!(granted, Some(alive.token));
    }

    #[test]
    fn fencing_tokens_grow_over_all_keys() {
        let memory = alone();
        let (a, b) = (claim("a"), claim("b"));
        assert!(memory.acquire(&a) && memory.acquire(&b));
        let first = memory.fencing_token(&a).unwrap();
        assert!(memory.fencing_token(&b).unwrap() > first);
    }

    #[test]
    fn a_named_store_is_shared_and_an_unnamed_one_is_not() {
        let (one, _) = memory(&Store::open("shared"));
        let (two, _) = memory(&Store::open("shared"));
        assert!(one.acquire(&claim("a")));
        assert!(!two.acquire(&claim("a")));
        assert!(alone().acquire(&claim("a")));
    }
}
