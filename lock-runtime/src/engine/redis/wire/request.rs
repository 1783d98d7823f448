//! The requests of a connection, and what turns them into bytes.

use crate::engine::request::{Attempt, Claim};
use crate::engine::token::Token;
use redis::Value;
use std::sync::Arc;

pub(crate) enum Request {
    Acquire {
        attempt: Attempt,
        /// Drawn when the request is written.
        token: Option<Token>,
        asking: bool,
    },
    Release {
        name: Arc<str>,
        token: Token,
        /// At most for the only release of a batch.
        asking: bool,
    },
    /// Any other command.
    Command {
        /// The bytes to be written.
        packed: Vec<u8>,
        asking: bool,
        /// The reply is a pair: the command's own, and the number of replicas that acknowledged it.
        await_replicas: bool,
    },
}

/// Turns requests into bytes, in the order of the calls.
pub(crate) trait Encoder {
    /// The greatest number of releases in one call of the script.
    fn max_releases(&self) -> usize;

    /// Writes one call of the script that releases several locks.
    fn releases(&mut self, batch: &[(&Arc<str>, Token)]);

    /// Writes an acquisition that has its token, or a command.
    fn request(&mut self, request: &Request);

    /// Writes the request after which a node executes one that another node redirected to it.
    fn asking(&mut self);

    /// Writes the request that waits for the replicas.
    fn wait_for_replicas(&mut self);
}

/// Returns the number of locks that this reply to an acquisition grants, whatever else it says.
pub(crate) fn granted(reply: &Value) -> usize {
    match reply {
        Value::Nil | Value::ServerError(_) => 0,
        Value::Int(count) => usize::try_from(*count).unwrap_or(0),
        // Replicas have been awaited.
        Value::Array(both) => both.first().map_or(0, granted),
        _ => 1,
    }
}

impl Default for Request {
    fn default() -> Self {
        Request::Command {
            packed: Vec::new(),
            asking: false,
            await_replicas: false,
        }
    }
}

impl Request {
    pub(crate) fn release(&self) -> Option<(&Arc<str>, Token)> {
        match self {
            Request::Release { name, token, .. } => Some((name, *token)),
            _ => None,
        }
    }

    pub(crate) fn is_acquisition(&self) -> bool {
        matches!(self, Request::Acquire { .. })
    }

    /// Requests with a lower number come first in a write.
    pub(crate) fn place_in_write(&self) -> u8 {
        match self {
            Request::Release { .. } => 0,
            Request::Acquire { .. } => 1,
            Request::Command { .. } => 2,
        }
    }

    /// Gives an acquisition its token.
    pub(crate) fn set_token(&mut self, drawn: Token) {
        if let Request::Acquire { attempt, token, .. } = self {
            *token = Some(drawn.with_limit(attempt.limit));
        }
    }

    pub(crate) fn token(&self) -> Option<Token> {
        match self {
            Request::Acquire { token, .. } => *token,
            _ => None,
        }
    }

    /// Frees the bytes of a command that was written.
    pub(crate) fn forget_bytes(&mut self) {
        if let Request::Command { packed, .. } = self {
            *packed = Vec::new();
        }
    }

    /// Returns the claims of an acquisition that was written.
    pub(crate) fn claims(&self) -> Vec<Claim> {
        match self {
            Request::Acquire {
                attempt,
                token: Some(token),
                ..
            } => attempt.claims(*token).collect(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn awaits_replicas(&self) -> bool {
        match self {
            Request::Acquire { attempt, .. } => attempt.replicas > 0,
            Request::Release { .. } => false,
            Request::Command { await_replicas, .. } => *await_replicas,
        }
    }

    pub(crate) fn asks_first(&self) -> bool {
        match self {
            Request::Acquire { asking, .. }
            | Request::Release { asking, .. }
            | Request::Command { asking, .. } => *asking,
        }
    }
}
