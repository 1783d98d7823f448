//! The embedded engine: locks within one process, for tests and a first try.

use super::{Answer, Claim, Engine, Token};
use crate::clock::{Clock, Moment};
use once_cell::sync::Lazy;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::time::Instant;

#[derive(Debug, Default)]
pub(crate) struct Memory {
    clock: Clock,
    store: Mutex<Store>,
}

#[derive(Debug, Default)]
struct Store {
    held: HashMap<Arc<str>, Held>,
    last_fencing_token: u64,
}

#[derive(Debug)]
struct Held {
    token: Token,
    since: Moment,
    ttl: std::time::Duration,
}

impl Memory {
    /// A store of that name, shared by all in the process who ask for it; without a name, a new one.
    pub(crate) fn open(name: &str) -> Arc<Memory> {
        static STORES: Lazy<Mutex<HashMap<String, Weak<Memory>>>> = Lazy::new(Mutex::default);

        if name.is_empty() {
            return Arc::default();
        }
        let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(memory) = stores.get(name).and_then(Weak::upgrade) {
            return memory;
        }
        let memory = Arc::default();
        stores.retain(|_, memory| memory.strong_count() > 0);
        stores.insert(name.to_owned(), Arc::downgrade(&memory));
        memory
    }

    #[cfg(test)]
    pub(crate) fn with_clock(clock: Clock) -> Memory {
        Memory {
            clock,
            store: Mutex::default(),
        }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn acquire(&self, claim: &Claim) -> bool {
        let now = self.clock.now();
        let mut store = self.store();
        if let Some(held) = store.held.get(&claim.name)
            && !held.is_over(now)
        {
            return false;
        }
        let held = Held {
            token: claim.token,
            since: now,
            ttl: claim.ttl,
        };
        store.held.insert(claim.name.clone(), held);
        true
    }

    fn release(&self, claim: &Claim) -> bool {
        let now = self.clock.now();
        let mut store = self.store();
        let ours = store.find(claim, now).is_some();
        if ours {
            store.held.remove(&claim.name);
        }
        ours
    }

    fn renew(&self, claim: &Claim) -> bool {
        let now = self.clock.now();
        let mut store = self.store();
        let Some(held) = store.find(claim, now) else {
            return false;
        };
        held.since = now;
        held.ttl = claim.ttl;
        true
    }

    fn fencing_token(&self, claim: &Claim) -> Option<u64> {
        let now = self.clock.now();
        let mut store = self.store();
        store.find(claim, now)?;
        store.last_fencing_token += 1;
        Some(store.last_fencing_token)
    }
}

impl Store {
    fn find(&mut self, claim: &Claim, now: Moment) -> Option<&mut Held> {
        let held = self.held.get_mut(&claim.name)?;
        (held.token == claim.token && !held.is_over(now)).then_some(held)
    }
}

impl Held {
    fn is_over(&self, now: Moment) -> bool {
        now.since(self.since) >= self.ttl
    }
}

fn at_once<'a, T: Send + 'a>(answer: T) -> Answer<'a, T> {
    Box::pin(std::future::ready(Ok(answer)))
}

impl Engine for Memory {
    fn acquire<'a>(&'a self, claim: &'a Claim, _: Instant) -> Answer<'a, bool> {
        at_once(self.acquire(claim))
    }

    fn release<'a>(&'a self, claim: &'a Claim, _: Instant) -> Answer<'a, bool> {
        at_once(self.release(claim))
    }

    fn renew<'a>(&'a self, claims: &'a [Claim], _: Instant) -> Answer<'a, Vec<bool>> {
        at_once(claims.iter().map(|claim| self.renew(claim)).collect())
    }

    fn fencing_token<'a>(&'a self, claim: &'a Claim, _: Instant) -> Answer<'a, Option<u64>> {
        at_once(self.fencing_token(claim))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn claim(name: &str) -> Claim {
        Claim {
            name: name.into(),
            token: Token::fresh(),
            ttl: Duration::from_secs(30),
        }
    }

    #[test]
    fn a_held_lock_is_not_given_again_until_it_is_released() {
        let memory = Memory::default();
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
        let memory = Memory::with_clock(clock.clone());
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
    fn fencing_tokens_grow_over_all_keys() {
        let memory = Memory::default();
        let (a, b) = (claim("a"), claim("b"));
        assert!(memory.acquire(&a) && memory.acquire(&b));
        let first = memory.fencing_token(&a).unwrap();
        assert!(memory.fencing_token(&b).unwrap() > first);
    }

    #[test]
    fn a_named_store_is_shared_and_an_unnamed_one_is_not() {
        let (one, two) = (Memory::open("shared"), Memory::open("shared"));
        assert!(one.acquire(&claim("a")));
        assert!(!two.acquire(&claim("a")));
        assert!(Memory::open("").acquire(&claim("a")));
    }
}
