//! The requests that wait to be sent.

use crate::engine::background_release::BackgroundRelease;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::postgres::unanswered::Gain;
use crate::engine::token::Token;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, oneshot};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

pub(crate) type Reply<T> = oneshot::Sender<Result<T, EngineError>>;
pub(crate) type Parameter = (Box<dyn ToSql + Send + Sync>, Type);

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
    fn is_wanted(&self) -> bool {
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
    fn size(&self) -> usize {
        match self {
            Request::Acquire(it) => it.names.len(),
            Request::Renew(it) => it.names.len(),
            _ => 1,
        }
    }

    fn fail(self, error: EngineError) {
        match self {
            Request::Acquire(it) => drop(it.reply.send(Err(error))),
            Request::Release(it) => it.reply.send(Err(error)),
            Request::Renew(it) => drop(it.reply.send(Err(error))),
            Request::Single(it) => drop(it.reply.send(Err(error))),
            Request::Tell(_) => {}
        }
    }
}

#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Something has changed, for the one task that sends the requests.
    pub(crate) changed: Notify,
}

#[derive(Default)]
struct State {
    requests: VecDeque<Request>,
    /// Why there is no connection, after an attempt to make one.
    down: Option<EngineError>,
    closed: bool,
}

impl Queue {
    /// Adds a request, or fails it if there is no connection.
    pub(crate) fn push(&self, request: Request) {
        let mut state = self.state();
        let Some(error) = state.down.clone() else {
            state.requests.push_back(request);
            drop(state);
            return self.changed.notify_one();
        };
        drop(state);
        request.fail(error);
    }

    /// Takes requests for up to `most` locks, or a few more.
    pub(crate) fn take(&self, most: usize) -> Vec<Request> {
        let (mut taken, mut left, mut size) = (Vec::new(), Vec::new(), 0);
        let mut state = self.state();
        while size < most
            && let Some(request) = state.requests.pop_front()
        {
            match request.is_wanted() {
                true => {
                    size += request.size();
                    taken.push(request);
                }
                false => left.push(request),
            }
        }
        drop(state);
        taken
    }

    /// Returns the number of requests.
    pub(crate) fn len(&self) -> usize {
        self.state().requests.len()
    }

    /// Fails all requests, and those to come until there is a connection.
    pub(crate) fn set_down(&self, error: &EngineError) {
        let mut state = self.state();
        state.down = Some(error.clone());
        let requests = std::mem::take(&mut state.requests);
        drop(state);
        for request in requests {
            request.fail(error.clone());
        }
    }

    pub(crate) fn set_up(&self) {
        self.state().down = None;
    }

    /// Lets the task end that sends the requests.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
