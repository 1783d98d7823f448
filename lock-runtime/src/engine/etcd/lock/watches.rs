//! The watches of claims that wait, by their numbers.

use crate::engine::token::Token;
use crate::util::sync::{Mutex, MutexGuard};
use std::collections::HashMap;

#[derive(Default)]
pub(crate) struct Watches(Mutex<State>);

#[derive(Default)]
struct State {
    tokens: HashMap<i64, Token>,
    last: i64,
}

impl Watches {
    /// Returns the number of a new watch of that claim.
    pub(crate) fn add(&self, token: Token) -> i64 {
        let mut state = self.state();
        state.last += 1;
        let watch = state.last;
        state.tokens.insert(watch, token);
        watch
    }

    pub(crate) fn get(&self, watch: i64) -> Option<Token> {
        self.state().tokens.get(&watch).copied()
    }

    /// Forgets a watch. Returns `false` if that has been done.
    pub(crate) fn remove(&self, watch: i64) -> bool {
        self.state().tokens.remove(&watch).is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}
