//! Who holds a lock and who waits for it, and which locks there are.

use crate::engine::memory::store::Store;
use crate::engine::token::Token;
use crate::engine::view::{View, ViewedHolder};
use crate::lock_info::LeaseInfo;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

impl Store {
    /// Looks at a lock, and at its first waiters.
    pub(crate) fn view(&self, name: &str, most: usize) -> View {
        let (mut state, now) = self.lock();
        let text = |token: Token| token.to_string().into();
        let holders = state.holders(name, now).iter();
        let holders = holders.filter_map(|holder| {
            Some(ViewedHolder {
                token: text(holder.token()?),
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
}
