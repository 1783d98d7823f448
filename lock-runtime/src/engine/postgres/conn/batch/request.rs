//! The requests to a server, each with who waits for the answer.

use crate::engine::background_release::BackgroundRelease;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::postgres::conn::batch::pending_tokens::Gain;
use crate::engine::postgres::wire::values::Parameter;
use crate::engine::token::Token;
use tokio::sync::oneshot;
use tokio_postgres::Row;

pub(crate) type Reply<T> = oneshot::Sender<Result<T, EngineError>>;

pub(crate) enum Request {
    Acquire(Acquire),
    Release(Release),
    Renew(Renew),
    Single(Single),
    /// Messages, each of a channel, a space and a text.
    Tell(Vec<String>),
}

/// One call, for one lock or several.
pub(crate) struct Acquire {
    pub(crate) names: Vec<String>,
    pub(crate) tokens: Vec<Token>,
    pub(crate) ttl: i64,
    pub(crate) replicas: i32,
    /// The number of locks acquired.
    pub(crate) reply: Reply<usize>,
}

pub(crate) struct Release {
    pub(crate) name: String,
    pub(crate) token: Token,
    /// Leaves the queue, too.
    pub(crate) leaves: bool,
    pub(crate) reply: ReleaseReply,
}

pub(crate) struct Renew {
    pub(crate) names: Vec<String>,
    pub(crate) tokens: Vec<String>,
    pub(crate) ttls: Vec<i64>,
    pub(crate) replicas: i32,
    /// Whether each token still holds its lock.
    pub(crate) reply: Reply<Vec<bool>>,
}

/// A statement that is not sent together with others.
pub(crate) struct Single {
    pub(crate) statement: &'static str,
    pub(crate) parameters: Vec<Parameter>,
    /// A token that waits from then on, and the server time after which it must not; that is one more parameter.
    pub(crate) waits: Option<(Token, Option<i64>)>,
    pub(crate) reply: Reply<Vec<Row>>,
}

/// The receiver of the answer whether a token held its lock.
pub(crate) enum ReleaseReply {
    Caller(Reply<bool>),
    Background(UnansweredRelease),
    /// The release is repeated, since a crash of the server may have undone it; its caller has had the answer.
    Repeat,
}

/// A background release. Unless it is answered, dropping it hands it over.
pub(crate) struct UnansweredRelease(pub(crate) Option<BackgroundRelease>);

impl ReleaseReply {
    /// Returns `false` if the caller has left.
    pub(crate) fn is_wanted(&self) -> bool {
        match self {
            ReleaseReply::Caller(reply) => !reply.is_closed(),
            ReleaseReply::Background(_) | ReleaseReply::Repeat => true,
        }
    }

    pub(crate) fn send(self, result: Result<bool, EngineError>) {
        match self {
            ReleaseReply::Caller(reply) => drop(reply.send(result)),
            ReleaseReply::Repeat => {}
            ReleaseReply::Background(mut release) => {
                let release = release.0.take();
                match (release, result) {
                    (Some(release), Ok(was_owner)) => release.confirm(was_owner),
                    (Some(release), Err(error)) => {
                        release.hand_over(error.kind == EngineErrorKind::Indeterminate);
                    }
                    (None, _) => {}
                }
            }
        }
    }
}

impl Drop for UnansweredRelease {
    fn drop(&mut self) {
        if let Some(release) = self.0.take() {
            release.hand_over(true);
        }
    }
}

impl Request {
    /// Returns `false` if the caller has left.
    pub(crate) fn is_wanted(&self) -> bool {
        match self {
            Request::Acquire(it) => !it.reply.is_closed(),
            Request::Release(it) => it.reply.is_wanted(),
            Request::Renew(it) => !it.reply.is_closed(),
            Request::Single(it) => !it.reply.is_closed(),
            Request::Tell(_) => true,
        }
    }

    /// Returns the tokens that may hold a lock, or wait for one, because of the request.
    pub(crate) fn gains(&self) -> Vec<Gain> {
        let gain = |token: Token, is_single| Gain { token, is_single };
        match self {
            Request::Acquire(it) => it.tokens.iter().map(|token| gain(*token, true)).collect(),
            Request::Single(Single { waits, .. }) => {
                let waits = waits.map(|(token, _)| gain(token, false));
                waits.into_iter().collect()
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
            Request::Release(it) => it.reply.send(Err(error)),
            Request::Renew(it) => drop(it.reply.send(Err(error))),
            Request::Single(it) => drop(it.reply.send(Err(error))),
            Request::Tell(_) => {}
        }
    }
}
