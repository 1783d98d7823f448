//! One connection: it sends requests, and finds out when it breaks.

use crate::engine::common::upkeep::Kept;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::redis::conn::batch::slab::Outcome;
use crate::engine::redis::conn::direct::Direct;
use crate::engine::redis::conn::driver::Driver;
use crate::engine::redis::conn::endpoint::Endpoint;
use crate::engine::redis::conn::pipeline::Pipeline;
use crate::engine::redis::conn::request::{Envelope, Reply};
use crate::engine::redis::wire::error::{error_kind, is_broken, is_replica, with_message};
use crate::util::io_thread::IoThread;
use crate::util::time::{elapsed_since, now};
use redis::RedisError;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A connection to a replica is abandoned only after this time: reconnecting sooner may lead to the same
/// server again.
const REPLICA_GRACE: Duration = Duration::from_millis(500);

/// A deadline that is nearer gets a timer of its own: the others are checked at every tick of the I/O thread.
const NEAR: Duration = Duration::from_millis(100);

pub(crate) const MASTER_CHANGED: &str = "the server is no longer the master";

pub(crate) struct Connection {
    pub(crate) endpoint: Endpoint,
    created_at: Instant,
    io: IoThread,
    transport: Transport,
}

/// The way requests reach the server.
pub(crate) enum Transport {
    Pipelined(Arc<Pipeline>, Driver),
    Direct(Box<Direct>),
}

/// The reason why a request got no reply.
pub(crate) struct SendError {
    pub(crate) error: EngineError,
    /// The connection is no longer usable.
    pub(crate) broken: bool,
    /// The request may be sent over another connection.
    pub(crate) not_sent: bool,
}

impl Connection {
    pub(crate) fn new(endpoint: Endpoint, io: IoThread, transport: Transport) -> Connection {
        Connection {
            endpoint,
            created_at: now(),
            io,
            transport,
        }
    }

    /// Sends a request, and waits for its reply until the deadline.
    pub(crate) async fn send<'a>(&self, envelope: &Envelope<'a>) -> Result<Reply<'a>, SendError> {
        if self.endpoint.is_stale() {
            let error = EngineError::new(EngineErrorKind::NotConnected, MASTER_CHANGED);
            return Err(SendError {
                error,
                broken: true,
                not_sent: true,
            });
        }
        let outcome = match &self.transport {
            Transport::Pipelined(pipeline, _) => {
                let ticket = pipeline.submit(envelope);
                match envelope.deadline.saturating_duration_since(now()) < NEAR {
                    true => {
                        let timed = Box::pin(self.io.timeout_at(envelope.deadline, ticket));
                        timed.await.unwrap_or(Outcome::Expired)
                    }
                    false => ticket.await,
                }
            }
            // Boxed: a pipelined request does not need the room.
            Transport::Direct(direct) => Box::pin(direct.send(envelope))
                .await
                .map_err(|error| self.failed(error))?,
        };
        self.judge(envelope, outcome)
    }

    fn judge<'a>(&self, envelope: &Envelope<'a>, outcome: Outcome) -> Result<Reply<'a>, SendError> {
        let broken = |words: &'static str| SendError {
            error: EngineError::new(EngineErrorKind::Indeterminate, words),
            broken: true,
            not_sent: false,
        };
        match outcome {
            Outcome::Reply(value, token) => {
                let acquired = envelope.acquired(&value, token);
                // A former master does not know the locks that the new one grants.
                if self.endpoint.is_stale() {
                    return Err(broken(MASTER_CHANGED));
                }
                // Replicas that could not be awaited make an error of the whole.
                match value.extract_error() {
                    Ok(value) => Ok(Reply { value, acquired }),
                    Err(error) => Err(self.failed(error)),
                }
            }
            Outcome::NotSent => Err(SendError {
                error: EngineError::new(EngineErrorKind::NotConnected, "the connection has ended"),
                broken: true,
                not_sent: true,
            }),
            Outcome::NoReply => Err(broken("the connection has ended")),
            Outcome::Expired => Err(SendError {
                error: EngineError::no_reply(),
                broken: false,
                not_sent: false,
            }),
        }
    }

    fn failed(&self, error: RedisError) -> SendError {
        let is_broken = is_broken(&error);
        let kind = match is_broken {
            true => EngineErrorKind::Indeterminate,
            false => error_kind(&error),
        };
        let is_replica = is_replica(&error) && elapsed_since(self.created_at) > REPLICA_GRACE;
        SendError {
            error: with_message(kind, error),
            broken: is_broken || is_replica,
            not_sent: false,
        }
    }

    /// Returns its pipeline, if requests can be sent over it.
    pub(crate) fn pipeline(&self) -> Option<&Arc<Pipeline>> {
        match &self.transport {
            Transport::Pipelined(pipeline, _) if !self.endpoint.is_stale() => Some(pipeline),
            _ => None,
        }
    }
}

impl Kept for Connection {
    fn has_ended(&self) -> bool {
        match &self.transport {
            Transport::Pipelined(_, driver) => driver.has_ended(),
            Transport::Direct(direct) => direct.has_ended(),
        }
    }

    /// Waits until the connection has ended, or its endpoint is stale.
    async fn ended(&self) {
        let ended = async {
            match &self.transport {
                Transport::Pipelined(_, driver) => driver.ended().await,
                Transport::Direct(direct) => direct.ended().await,
            }
        };
        self.endpoint.until_stale(ended).await;
    }

    fn end(&self) {
        match &self.transport {
            Transport::Pipelined(_, driver) => driver.end(),
            Transport::Direct(direct) => direct.end(),
        }
    }
}
