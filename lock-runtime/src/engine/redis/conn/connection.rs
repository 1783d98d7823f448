//! One connection: it sends requests, and finds out when it breaks.

use crate::engine::common::upkeep::Kept;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::redis::conn::batch::slab::Outcome;
use crate::engine::redis::conn::driver::Driver;
use crate::engine::redis::conn::endpoint::Endpoint;
use crate::engine::redis::conn::pipeline::Pipeline;
use crate::engine::redis::conn::request::{Envelope, Reply};
use crate::engine::redis::wire::error::{error_kind, is_replica, with_message};
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
    pipeline: Arc<Pipeline>,
    driver: Driver,
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
    pub(crate) fn new(
        endpoint: Endpoint,
        io: IoThread,
        pipeline: Arc<Pipeline>,
        driver: Driver,
    ) -> Connection {
        Connection {
            endpoint,
            created_at: now(),
            io,
            pipeline,
            driver,
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
        let ticket = self.pipeline.submit(envelope);
        let outcome = match envelope.deadline.saturating_duration_since(now()) < NEAR {
            true => {
                let timed = Box::pin(self.io.timeout_at(envelope.deadline, ticket));
                timed.await.unwrap_or(Outcome::Expired)
            }
            false => ticket.await,
        };
        self.judge(envelope, outcome)
    }

    fn judge<'a>(&self, envelope: &Envelope<'a>, outcome: Outcome) -> Result<Reply<'a>, SendError> {
        use EngineErrorKind::{Indeterminate, NotConnected};

        // Whatever ended the connection, the next one may work.
        let ended = |kind, why: EngineError| SendError {
            error: EngineError { kind, ..why },
            broken: true,
            not_sent: kind == NotConnected,
        };
        match outcome {
            Outcome::Reply(value, token) => {
                let acquired = envelope.acquired(&value, token);
                // A former master does not know the locks that the new one grants.
                if self.endpoint.is_stale() {
                    let changed = EngineError::new(Indeterminate, MASTER_CHANGED);
                    return Err(ended(Indeterminate, changed));
                }
                // Replicas that could not be awaited make an error of the whole.
                match value.extract_error() {
                    Ok(value) => Ok(Reply { value, acquired }),
                    Err(error) => Err(self.refused(error)),
                }
            }
            Outcome::NotSent => Err(ended(NotConnected, self.pipeline.why_ended())),
            Outcome::NoReply => Err(ended(Indeterminate, self.pipeline.why_ended())),
            Outcome::Expired => Err(SendError {
                error: EngineError::no_reply(),
                broken: false,
                not_sent: false,
            }),
        }
    }

    /// Returns the error with which the server has replied.
    fn refused(&self, error: RedisError) -> SendError {
        let is_replica = is_replica(&error) && elapsed_since(self.created_at) > REPLICA_GRACE;
        SendError {
            error: with_message(error_kind(&error), error),
            broken: is_replica,
            not_sent: false,
        }
    }

    /// Returns its pipeline, if requests can be sent over it.
    pub(crate) fn pipeline(&self) -> Option<&Arc<Pipeline>> {
        (!self.endpoint.is_stale()).then_some(&self.pipeline)
    }
}

impl Kept for Connection {
    fn has_ended(&self) -> bool {
        self.driver.has_ended()
    }

    /// Waits until the connection has ended, or its endpoint is stale.
    async fn ended(&self) {
        self.endpoint.until_stale(self.driver.ended()).await;
    }

    fn end(&self) {
        self.driver.end();
    }
}
