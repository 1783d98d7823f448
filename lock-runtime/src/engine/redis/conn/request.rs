//! A request to a server, and its reply.

use crate::engine::background_release::{AwaitedAcquire, ReleaseSupervisor};
use crate::engine::redis::wire::reply::granted;
use crate::engine::request::{Attempt, Claim};
use crate::engine::token::{Draw, Token};
use redis::{Cmd, Value};
use std::sync::Arc;
use tokio::time::Instant;

/// What an operation asks of a server, as its envelope lends it.
#[derive(Clone, Copy)]
pub(crate) enum Content<'a> {
    /// Acquires locks that are free.
    Acquire(&'a Attempt),
    /// Releases a lock, and grants it to the first claim in its queue.
    Release(&'a Claim),
    /// Any other command.
    Command(&'a Arc<Cmd>),
}

/// The same as the connection keeps it until the reply has come, whether the caller still waits or not.
#[derive(Default)]
pub(crate) enum Request {
    Acquire {
        attempt: Attempt,
        /// Drawn when the request is written.
        token: Option<Token>,
    },
    Release {
        name: Arc<str>,
        token: Token,
    },
    Command(Arc<Cmd>),
    #[default]
    None,
}

/// A request on its way.
#[derive(Clone, Copy)]
pub(crate) struct Envelope<'a> {
    pub(crate) content: Content<'a>,
    pub(crate) delivery: Delivery,
    /// The reply is awaited until then.
    pub(crate) deadline: Instant,
    /// Releases what an acquisition leaves behind if the caller leaves, or if the reply does not count.
    pub(crate) supervisor: Option<&'a Arc<dyn ReleaseSupervisor>>,
}

/// How a request is sent.
#[derive(Clone, Copy, Default)]
pub(crate) struct Delivery {
    pub(crate) via: Via,
    /// `ASKING` is sent first: another node of the cluster redirected the request here.
    pub(crate) asking: bool,
    /// The script is sent with its source: the server did not know it by its digest.
    pub(crate) with_source: bool,
}

/// The connection over which a request is sent.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) enum Via {
    /// That of the calling runtime, if it has one.
    #[default]
    Runtime,
    IoThread,
    /// Like `IoThread`, but waits for a connection while there is none, instead of failing at once.
    Patient,
    /// The connection on which that number of replicas is awaited. The reply is a pair: the request's own,
    /// and the number of replicas that acknowledged it.
    Replicas(u32),
}

/// A server's reply; no error.
pub(crate) struct Reply<'a> {
    pub(crate) value: Value,
    /// What an acquisition has acquired. Dropping it releases that.
    pub(crate) acquired: Option<AwaitedAcquire<'a>>,
}

impl<'a> Content<'a> {
    /// Returns the envelope in which it is sent by that connection.
    pub(crate) fn by(self, via: Via, deadline: Instant) -> Envelope<'a> {
        let delivery = Delivery {
            via,
            ..Delivery::default()
        };
        Envelope {
            content: self,
            delivery,
            deadline,
            supervisor: None,
        }
    }

    /// Returns the request for the slot: the only copy of what the operation asks.
    pub(super) fn request(self) -> Request {
        match self {
            Content::Acquire(attempt) => Request::Acquire {
                attempt: attempt.clone(),
                token: None,
            },
            Content::Release(claim) => Request::Release {
                name: claim.name.clone(),
                token: claim.token,
            },
            Content::Command(command) => Request::Command(command.clone()),
        }
    }
}

impl Request {
    pub(super) fn to_release(&self) -> Option<(&Arc<str>, Token)> {
        match self {
            Request::Release { name, token } => Some((name, *token)),
            _ => None,
        }
    }

    pub(super) fn is_acquisition(&self) -> bool {
        matches!(self, Request::Acquire { .. })
    }

    /// Requests with a lower number come first in a write.
    pub(super) fn place_in_write(&self) -> u8 {
        match self {
            Request::Release { .. } => 0,
            Request::Acquire { .. } => 1,
            Request::Command(_) | Request::None => 2,
        }
    }

    /// Gives an acquisition its token.
    pub(super) fn set_token(&mut self, draw: Draw) {
        if let Request::Acquire { attempt, token } = self {
            *token = Some(attempt.token(draw));
        }
    }

    pub(super) fn token(&self) -> Option<Token> {
        match self {
            Request::Acquire { token, .. } => *token,
            _ => None,
        }
    }

    /// Returns the claims of an acquisition that was written.
    pub(super) fn claims(&self) -> Vec<Claim> {
        match self {
            Request::Acquire {
                attempt,
                token: Some(token),
            } => attempt.claims(*token).collect(),
            _ => Vec::new(),
        }
    }
}

impl<'a> Envelope<'a> {
    /// Returns what that reply acquires with the token.
    pub(super) fn acquired(
        &self,
        reply: &Value,
        token: Option<Token>,
    ) -> Option<AwaitedAcquire<'a>> {
        match (self.content, self.supervisor) {
            (Content::Acquire(attempt), Some(supervisor)) if granted(reply) > 0 => {
                token.map(|token| AwaitedAcquire::new(attempt, token, supervisor))
            }
            _ => None,
        }
    }
}

impl Delivery {
    pub(super) fn awaits_replicas(self) -> bool {
        matches!(self.via, Via::Replicas(_))
    }
}
