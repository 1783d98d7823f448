//! The fate of each grant, and the holds of all checked guards.

use crate::engine::token::Token;
use crate::lock::hold::Hold;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(super) const TTL: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct GrantLog {
    pub(super) grants: Mutex<HashMap<Token, Grant>>,
    pub(super) holders: Mutex<Vec<Arc<Hold>>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Grant {
    pub(super) granted: bool,
    /// A place is reserved for it, with which nothing waits yet.
    pub(super) reserved: bool,
    /// How many times its release was requested.
    pub(super) releases: usize,
    /// How many times a waiter that left the queue returned it.
    pub(super) left: usize,
}

impl GrantLog {
    pub(super) fn note(&self, token: Token, what: impl FnOnce(&mut Grant)) {
        what(self.grants.lock().unwrap().entry(token).or_default());
    }
}
