//! The locks without a guard that this process retains until the end of their `min_hold`.

use crate::engine::request::Claim;
use crate::engine::token::Token;
use crate::limit::Limit;
use crate::util::sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use tokio::sync::Notify;

/// The claims of the locks that this process retains.
#[derive(Default)]
pub(crate) struct RetainedLocks {
    tokens: Mutex<HashMap<Arc<str>, Vec<Token>>>,
    ended: Notify,
}

impl RetainedLocks {
    /// Returns `true` if a retained lock is in the way of every other holder with that limit.
    pub(crate) fn exclude(&self, name: &str, limit: Limit) -> bool {
        let tokens = self.tokens();
        let excludes = |token: &Token| limit.is_exclusive() || token.limit().is_exclusive();
        tokens
            .get(name)
            .is_some_and(|tokens| tokens.iter().any(excludes))
    }

    pub(crate) fn add(&self, claim: &Claim) {
        let mut tokens = self.tokens();
        tokens
            .entry(claim.name.clone())
            .or_default()
            .push(claim.token);
    }

    pub(crate) fn remove(&self, claim: &Claim) {
        if let Entry::Occupied(mut tokens) = self.tokens().entry(claim.name.clone()) {
            tokens.get_mut().retain(|token| *token != claim.token);
            if tokens.get().is_empty() {
                tokens.remove();
            }
        }
    }

    /// Stops retaining the lock with that token, if it is retained.
    pub(crate) fn end(&self, token: Token) {
        let mut tokens = self.tokens();
        tokens
            .values_mut()
            .for_each(|tokens| tokens.retain(|other| *other != token));
        drop(tokens);
        self.ended.notify_waiters();
    }

    /// Waits until the lock is no longer to be retained.
    pub(crate) async fn ended(&self, claim: &Claim) {
        loop {
            let ended = self.ended.notified();
            if !self.is_retained(claim) {
                return;
            }
            ended.await;
        }
    }

    fn is_retained(&self, claim: &Claim) -> bool {
        let tokens = self.tokens();
        let of_name = tokens.get(&claim.name);
        of_name.is_some_and(|tokens| tokens.contains(&claim.token))
    }

    fn tokens(&self) -> MutexGuard<'_, HashMap<Arc<str>, Vec<Token>>> {
        self.tokens.lock()
    }
}
