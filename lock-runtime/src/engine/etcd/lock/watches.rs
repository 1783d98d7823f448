//! The watches of claims that wait, by their numbers.

use crate::engine::token::Token;
use crate::util::sync::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};

#[derive(Default)]
pub(crate) struct Watches {
    tokens: Mutex<HashMap<i64, Token>>,
    last: AtomicI64,
}

impl Watches {
    /// Returns the number of a new watch of that claim.
    pub(crate) fn add(&self, token: Token) -> i64 {
        let watch = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.tokens.lock().insert(watch, token);
        watch
    }

    pub(crate) fn get(&self, watch: i64) -> Option<Token> {
        self.tokens.lock().get(&watch).copied()
    }

    /// Forgets a watch. Returns `false` if that has been done.
    pub(crate) fn remove(&self, watch: i64) -> bool {
        self.tokens.lock().remove(&watch).is_some()
    }
}
