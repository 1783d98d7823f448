//! Acquisitions under way, and those that were never answered.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::redis::net::per_runtime::RuntimeConnection;
use crate::engine::token::Token;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Acquisitions whose caller no longer waits for the reply, with the runtime connection that they were sent
/// over, unless the I/O thread sent them. Their release must use the same connection.
#[derive(Default)]
pub(crate) struct UnansweredAcquires(Mutex<HashMap<Token, Option<Arc<RuntimeConnection>>>>);

impl UnansweredAcquires {
    /// Tracks an acquisition that the calling runtime, which drives `own`, is about to send.
    pub(crate) fn track(
        &self,
        token: Token,
        own: Option<Arc<RuntimeConnection>>,
    ) -> InFlightAcquire<'_> {
        let connection = own.clone().filter(|connection| connection.has_capacity());
        if let Some(own) = &own {
            own.acquire_started();
        }
        InFlightAcquire {
            unanswered: self,
            token,
            own,
            connection,
            answered: false,
        }
    }

    /// Removes an acquisition that has not been answered, and returns the connection it was sent over.
    pub(crate) fn remove(&self, token: Token) -> Option<Option<Arc<RuntimeConnection>>> {
        self.lock().remove(&token)
    }

    pub(crate) fn insert(&self, token: Token, connection: Option<Arc<RuntimeConnection>>) {
        self.lock().insert(token, connection);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Token, Option<Arc<RuntimeConnection>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An acquisition under way.
pub(crate) struct InFlightAcquire<'a> {
    unanswered: &'a UnansweredAcquires,
    token: Token,
    /// The connection driven by the runtime that sends the acquisition.
    own: Option<Arc<RuntimeConnection>>,
    /// The connection that it is sent over; `None` is the I/O thread's.
    pub(crate) connection: Option<Arc<RuntimeConnection>>,
    answered: bool,
}

impl InFlightAcquire<'_> {
    pub(crate) fn answered<T>(mut self, answer: &Result<T, EngineError>) {
        self.answered =
            !matches!(answer, Err(error) if error.kind == EngineErrorKind::Indeterminate);
    }
}

impl Drop for InFlightAcquire<'_> {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            own.acquire_finished();
        }
        if !self.answered {
            self.unanswered.insert(self.token, self.connection.take());
        }
    }
}
