//! Acquisitions under way, and those that nobody waits for any more.

use crate::engine::error::{EngineError, Fault};
use crate::engine::redis::net::per_runtime::Home;
use crate::engine::token::Token;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Acquisitions whose answer nobody waits for any more, and the home they were sent from, if it wasn't
/// the I/O thread. Their release must follow them there.
#[derive(Default)]
pub(crate) struct Unsettled(Mutex<HashMap<Token, Option<Arc<Home>>>>);

impl Unsettled {
    /// Follows an acquisition that the calling runtime, whose home that is, is about to send.
    pub(crate) fn follow(&self, token: Token, own: Option<Arc<Home>>) -> Flight<'_> {
        let home = own.clone().filter(|home| home.serves());
        if let Some(own) = &own {
            own.sends();
        }
        Flight {
            unsettled: self,
            token,
            own,
            home,
            landed: false,
        }
    }

    /// Where an acquisition was sent from without having been answered.
    pub(crate) fn take(&self, token: Token) -> Option<Option<Arc<Home>>> {
        self.lock().remove(&token)
    }

    pub(crate) fn leave(&self, token: Token, home: Option<Arc<Home>>) {
        self.lock().insert(token, home);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Token, Option<Arc<Home>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An acquisition under way.
pub(crate) struct Flight<'a> {
    unsettled: &'a Unsettled,
    token: Token,
    /// The home of the runtime that sends it.
    own: Option<Arc<Home>>,
    /// The home that it is sent from; none is the I/O thread.
    pub(crate) home: Option<Arc<Home>>,
    landed: bool,
}

impl Flight<'_> {
    pub(crate) fn landed<T>(mut self, answer: &Result<T, EngineError>) {
        self.landed = !matches!(answer, Err(error) if error.fault == Fault::Unanswered);
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            own.has_sent();
        }
        if !self.landed {
            self.unsettled.leave(self.token, self.home.take());
        }
    }
}
