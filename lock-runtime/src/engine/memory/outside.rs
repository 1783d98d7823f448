//! The store, as people see it from outside.

use crate::engine::memory::store::Store;
use crate::engine::operations::Taken;
use crate::engine::request::Claim;
use crate::engine::timeouts::TOMBSTONE_TTL;
use crate::engine::token::Token;
use crate::engine::view::{View, ViewedHolder};
use crate::lock_info::LeaseInfo;
use crate::util::clock::Timestamp;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

impl Store {
    /// Looks at a lock, and at its first waiters.
    pub(crate) fn view(&self, name: &str, most: usize) -> View {
        let (mut state, now) = self.lock();
        let text = |token: Token| Box::from(token.encode(&mut [0; 37]));
        let holders = state.holders(name, now).iter();
        let holders = holders.filter_map(|holder| {
            Some(ViewedHolder {
                token: text(holder.token?),
                lease: LeaseInfo::Ends(holder.left(now)),
                votes: None,
            })
        });
        let holders = holders.collect();
        let queue = state.queues.get(name);
        let waiters = queue.into_iter().flatten().take(most);
        View {
            holders,
            waiters: waiters.map(|waiter| text(waiter.token)).collect(),
            waiting: queue.map_or(0, VecDeque::len) as u64,
        }
    }

    /// Returns the names of locks that are held or waited for.
    pub(crate) fn names(&self, prefix: &str, most: usize) -> Vec<Arc<str>> {
        let (state, _) = self.lock();
        let names = state.held.keys().chain(state.queues.keys());
        let names: BTreeSet<_> = names.filter(|name| name.starts_with(prefix)).collect();
        names.into_iter().take(most).cloned().collect()
    }

    /// Takes the lock from the holder with that token.
    pub(crate) fn take(&self, name: &str, token: &str, at_least: u64) -> Taken {
        let (mut state, now) = self.lock();
        let holders = state.holders(name, now).iter().filter_map(|it| it.token);
        let found = holders.into_iter().find(|held| held.to_string() == token);
        let held = found.is_some_and(|token| {
            let claim = Claim {
                name: name.into(),
                token,
                ttl: Duration::ZERO,
                replicas: 0,
            };
            state.vacate(&claim, now)
        });
        if let Some(token) = Token::parse(token) {
            let is_known = |at: &Timestamp| now.elapsed_since(*at) < TOMBSTONE_TTL;
            state.taken.retain(|_, at| is_known(at));
            state.taken.insert(token, now);
        }
        state.last_fencing_token = at_least.max(state.last_fencing_token + 1);
        let fencing_token = state.last_fencing_token;
        state.grant_next(&name.into(), now);
        Taken {
            held,
            pinned: false,
            fencing_token,
        }
    }
}
