//! State of tokens at the members, kept until it is cleaned up.

use crate::engine::token::Token;
use crate::util::count::{Count, Owed};
use crate::util::sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;

/// Entries by token, and the number of cleanups under way.
pub(crate) struct Registry<T> {
    entries: Mutex<HashMap<Token, Arc<T>>>,
    cleanups: Arc<Count>,
}

impl<T> Default for Registry<T> {
    fn default() -> Self {
        Registry {
            entries: Mutex::default(),
            cleanups: Arc::new(Count::new()),
        }
    }
}

impl<T> Registry<T> {
    pub(crate) fn insert(&self, token: Token, entry: Arc<T>) {
        self.entries().insert(token, entry);
    }

    pub(crate) fn get(&self, token: Token) -> Option<Arc<T>> {
        self.entries().get(&token).cloned()
    }

    pub(crate) fn get_or_insert(&self, token: Token, entry: impl FnOnce() -> T) -> Arc<T> {
        let mut entries = self.entries();
        let entry = entries.entry(token).or_insert_with(|| Arc::new(entry()));
        entry.clone()
    }

    pub(crate) fn remove(&self, token: Token) -> Option<Arc<T>> {
        self.entries().remove(&token)
    }

    /// Begins a cleanup, which ends when the returned value is dropped.
    pub(crate) fn begin_cleanup(&self) -> Owed {
        Owed::begin(&self.cleanups)
    }

    /// Waits until no cleanup is under way.
    pub(crate) async fn drained(&self) {
        self.cleanups.wait_idle().await;
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Token, Arc<T>>> {
        self.entries.lock()
    }
}
