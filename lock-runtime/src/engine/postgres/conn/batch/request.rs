//! The requests to a server, each with the recipient of its reply.

use crate::engine::error::EngineError;
use crate::engine::postgres::conn::batch::pending_tokens::PendingToken;
use crate::engine::postgres::conn::batch::recipient::{ReleaseRecipient, ReplySender};
use crate::engine::postgres::wire::values::Parameter;
use crate::engine::token::Token;
use tokio_postgres::Row;

pub(crate) enum Request {
    Acquire(Acquire),
    Release(Release),
    Renew(Renew),
    Single(Single),
    /// Messages to other processes: each is a channel, a space and a text.
    Notify(Vec<String>),
}

/// One attempt, for one lock or several.
pub(crate) struct Acquire {
    pub(crate) names: Vec<String>,
    pub(crate) tokens: Vec<Token>,
    pub(crate) ttl: i64,
    pub(crate) replicas: i32,
    /// Receives the number of locks acquired.
    pub(crate) reply: ReplySender<usize>,
}

pub(crate) struct Release {
    pub(crate) name: String,
    pub(crate) token: Token,
    /// Leaves the queue, too.
    pub(crate) leaves: bool,
    pub(crate) recipient: ReleaseRecipient,
}

pub(crate) struct Renew {
    pub(crate) names: Vec<String>,
    pub(crate) tokens: Vec<String>,
    pub(crate) ttls: Vec<i64>,
    pub(crate) replicas: i32,
    /// Receives, for each token, whether it still holds its lock.
    pub(crate) reply: ReplySender<Vec<bool>>,
}

/// A statement that is not sent together with others.
pub(crate) struct Single {
    pub(crate) statement: &'static str,
    pub(crate) parameters: Vec<Parameter>,
    /// Set if the statement enters a queue. Then its last parameter is the server time after which it must
    /// not.
    pub(crate) waits: Option<Wait>,
    pub(crate) reply: ReplySender<Vec<Row>>,
}

/// A token that waits from its request on.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) token: Token,
    /// The server time after which the claim must not enter the queue, if that is earlier than for other
    /// requests.
    pub(crate) valid_until: Option<i64>,
}

impl Request {
    /// Returns `false` if the caller has left.
    pub(crate) fn is_wanted(&self) -> bool {
        match self {
            Request::Acquire(it) => !it.reply.is_closed(),
            Request::Release(it) => it.recipient.is_wanted(),
            Request::Renew(it) => !it.reply.is_closed(),
            Request::Single(it) => !it.reply.is_closed(),
            Request::Notify(_) => true,
        }
    }

    /// Returns the tokens that may hold a lock, or wait for one, because of the request.
    pub(crate) fn pending_tokens(&self) -> Vec<PendingToken> {
        let pending = |is_sent_once| {
            move |token| PendingToken {
                token,
                is_sent_once,
            }
        };
        match self {
            Request::Acquire(it) => it.tokens.iter().copied().map(pending(true)).collect(),
            Request::Single(it) => {
                let waits = it.waits.iter().map(|wait| wait.token);
                waits.map(pending(false)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the number of locks that the request is about.
    pub(crate) fn size(&self) -> usize {
        match self {
            Request::Acquire(it) => it.names.len(),
            Request::Renew(it) => it.names.len(),
            _ => 1,
        }
    }

    pub(crate) fn fail(self, error: EngineError) {
        match self {
            Request::Acquire(it) => drop(it.reply.send(Err(error))),
            Request::Release(it) => it.recipient.send(Err(error)),
            Request::Renew(it) => drop(it.reply.send(Err(error))),
            Request::Single(it) => drop(it.reply.send(Err(error))),
            Request::Notify(_) => {}
        }
    }
}
