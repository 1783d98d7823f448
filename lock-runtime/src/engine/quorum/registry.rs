//! State of tokens at the members, kept until it is cleaned up.

use crate::engine::token::Token;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Entries by token, and the number of cleanups under way.
pub(crate) struct Registry<T> {
    entries: Mutex<HashMap<Token, Arc<T>>>,
    cleanups: watch::Sender<usize>,
}

impl<T> Default for Registry<T> {
    fn default() -> Self {
        Registry {
            entries: Mutex::default(),
            cleanups: watch::Sender::new(0),
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

    /// Counts a cleanup until [`cleanup_ended`](Registry::cleanup_ended).
    pub(crate) fn cleanup_started(&self) {
        self.cleanups.send_modify(|cleanups| *cleanups += 1);
    }

    pub(crate) fn cleanup_ended(&self) {
        self.cleanups.send_modify(|cleanups| *cleanups -= 1);
    }

    /// Waits until no cleanup is under way.
    pub(crate) async fn drained(&self) {
        let mut cleanups = self.cleanups.subscribe();
        let _ = cleanups.wait_for(|cleanups| *cleanups == 0).await;
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Token, Arc<T>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
