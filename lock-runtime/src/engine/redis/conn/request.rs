//! A request to a server, and its reply.

use crate::engine::background_release::{BackgroundRelease, ReleaseSupervisor};
use crate::engine::error::EngineError;
use crate::engine::redis::wire::error::{error_kind, with_message};
use crate::engine::redis::wire::request;
use crate::engine::redis::wire::request::granted;
use crate::engine::request::{Attempt, Claim};
use crate::engine::token::Token;
use redis::{Cmd, FromRedisValue, RedisError, Value};
use std::sync::Arc;

/// An operation, and how it is sent.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) operation: Operation<'a>,
    /// `ASKING` is sent first: another node of the cluster redirected the request here.
    pub(crate) asking: bool,
    /// The number of replicas awaited on the connection that is used; 0 for the usual connection.
    pub(crate) replicas: u32,
    /// `true` if they are awaited. Then the reply is a pair: the operation's own, and the number of replicas
    /// that acknowledged it.
    pub(crate) await_replicas: bool,
    /// `true` if the request waits for a connection while there is none, instead of failing at once.
    pub(crate) patient: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Operation<'a> {
    /// Acquires locks that are free. If their caller leaves, the locks are released.
    Acquire(&'a Attempt, &'a Arc<dyn ReleaseSupervisor>),
    /// Releases a lock, and grants it to the first claim in its queue.
    Release(&'a Claim),
    Command(&'a Cmd),
}

/// A server's reply; no error.
pub(crate) struct Reply {
    pub(crate) value: Value,
    /// The token that was drawn for an acquisition.
    pub(crate) token: Option<Token>,
}

impl Reply {
    /// Converts the value.
    pub(crate) fn decode<T: FromRedisValue>(self) -> Result<T, EngineError> {
        T::from_redis_value(self.value).map_err(|error| {
            let error = RedisError::from(error);
            with_message(error_kind(&error), error)
        })
    }
}

impl<'a> Request<'a> {
    pub(crate) fn acquire(
        attempt: &'a Attempt,
        supervisor: &'a Arc<dyn ReleaseSupervisor>,
    ) -> Request<'a> {
        Request {
            replicas: attempt.replicas,
            await_replicas: attempt.replicas > 0,
            ..Request::new(Operation::Acquire(attempt, supervisor))
        }
    }

    pub(crate) fn release(claim: &'a Claim) -> Request<'a> {
        Request::new(Operation::Release(claim))
    }

    fn new(operation: Operation<'a>) -> Request<'a> {
        Request {
            operation,
            asking: false,
            replicas: 0,
            await_replicas: false,
            patient: false,
        }
    }

    /// Returns `true` if the runtime that sends the request serves it best.
    pub(crate) fn is_frequent(&self) -> bool {
        self.replicas == 0 && !matches!(self.operation, Operation::Command(_))
    }

    /// Returns the supervisor that releases what an acquisition leaves behind.
    pub(super) fn supervisor(&self) -> Option<&'a Arc<dyn ReleaseSupervisor>> {
        match self.operation {
            Operation::Acquire(_, supervisor) => Some(supervisor),
            _ => None,
        }
    }

    pub(super) fn to_slot(self) -> request::Request {
        match self.operation {
            Operation::Acquire(attempt, _) => request::Request::Acquire {
                attempt: attempt.clone(),
                token: None,
                asking: self.asking,
            },
            Operation::Release(claim) => request::Request::Release {
                name: claim.name.clone(),
                token: claim.token,
                asking: self.asking,
            },
            Operation::Command(command) => request::Request::Command {
                packed: command.get_packed_command(),
                asking: self.asking,
                await_replicas: self.await_replicas,
            },
        }
    }

    /// Leaves the locks that this reply grants to the supervisor: the reply does not count.
    pub(crate) fn disregard(&self, reply: &Reply) {
        if let (Operation::Acquire(attempt, supervisor), Some(token)) =
            (self.operation, reply.token)
        {
            for claim in attempt.claims(token).take(granted(&reply.value)) {
                BackgroundRelease::new(claim, false, supervisor.clone()).hand_over(false);
            }
        }
    }
}

impl<'a> From<&'a Cmd> for Request<'a> {
    fn from(command: &'a Cmd) -> Request<'a> {
        Request::new(Operation::Command(command))
    }
}
