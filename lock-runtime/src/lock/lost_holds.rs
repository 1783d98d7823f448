//! The locks that this process has lost, and whose bodies may still run.

use crate::engine::token::Token;
use crate::util::sync::{AtomicBool, Mutex};
use std::collections::HashSet;
use std::sync::atomic::Ordering;

#[derive(Default)]
pub(crate) struct LostHolds {
    tokens: Mutex<HashSet<Token>>,
    /// As long as there are none, the end of a hold has no mutex to lock.
    are_any: AtomicBool,
}

impl LostHolds {
    pub(crate) fn insert(&self, token: Token) {
        self.tokens.lock().insert(token);
        self.are_any.store(true, Ordering::Release);
    }

    pub(crate) fn remove(&self, token: Token) {
        if self.are_any.load(Ordering::Acquire) {
            let mut tokens = self.tokens.lock();
            tokens.remove(&token);
            self.are_any.store(!tokens.is_empty(), Ordering::Release);
        }
    }

    pub(crate) fn contains(&self, token: Token) -> bool {
        self.tokens.lock().contains(&token)
    }
}
