//! One connection: it sends requests, and finds out when it breaks.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::redis::net::driver::Driver;
use crate::engine::redis::net::endpoint::Endpoint;
use crate::engine::redis::net::error::{error_kind, is_broken, is_replica, with_message};
use crate::engine::redis::net::pipeline::Pipeline;
use crate::engine::redis::net::request::{Operation, Reply, Request};
use crate::engine::redis::net::slots::slab::Outcome;
use crate::engine::timeouts::{NO_REPLY, Timeouts};
use crate::util::io_thread::IoThread;
use crate::util::time::{elapsed_since, now};
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, RedisResult, Value};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A connection to a replica is abandoned only after this time: reconnecting sooner may lead to the same
/// server again.
const REPLICA_GRACE: Duration = Duration::from_millis(500);

/// A deadline that is nearer gets a timer of its own: the others are checked at every tick of the I/O thread.
const NEAR: Duration = Duration::from_millis(100);

pub(crate) const MASTER_CHANGED: &str = "the server is no longer the master";

pub(crate) struct Connection {
    /// Distinguishes it from earlier and later connections to the same server.
    pub(crate) generation: u64,
    pub(crate) endpoint: Endpoint,
    created_at: Instant,
    io: IoThread,
    transport: Transport,
}

/// The way requests reach the server.
pub(crate) enum Transport {
    Pipelined(Arc<Pipeline>, Driver),
    /// Through the redis crate, which also delivers messages.
    Direct(MultiplexedConnection, ReplyTimer),
}

/// The time since which a request has been waiting without any reply arriving.
pub(crate) struct ReplyTimer {
    waiting_since: Mutex<Option<Instant>>,
    /// After this time the connection is abandoned.
    timeouts: Timeouts,
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
        generation: u64,
        endpoint: Endpoint,
        io: IoThread,
        transport: Transport,
    ) -> Connection {
        Connection {
            generation,
            endpoint,
            created_at: now(),
            io,
            transport,
        }
    }

    /// Sends a request, and waits for its reply until the deadline.
    pub(crate) async fn send(
        &self,
        request: &Request<'_>,
        deadline: Instant,
    ) -> Result<Reply, SendError> {
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
                let slot = request.to_slot();
                let ticket = pipeline.submit(slot, deadline, request.supervisor());
                match deadline.saturating_duration_since(now()) < NEAR {
                    true => {
                        let timed = Box::pin(self.io.timeout_at(deadline, ticket));
                        timed.await.unwrap_or(Outcome::Expired)
                    }
                    false => ticket.await,
                }
            }
            Transport::Direct(redis, timer) => {
                // Boxed: a pipelined request does not need the room.
                Box::pin(send_direct(self.io, redis, timer, request, deadline)).await?
            }
        };
        self.judge(request, outcome)
    }

    fn judge(&self, request: &Request<'_>, outcome: Outcome) -> Result<Reply, SendError> {
        let indeterminate = |words: &'static str, broken| SendError {
            error: EngineError::new(EngineErrorKind::Indeterminate, words),
            broken,
            not_sent: false,
        };
        match outcome {
            Outcome::Reply(value, token) => {
                let reply = Reply { value, token };
                // A former master does not know the locks that the new one grants.
                if self.endpoint.is_stale() {
                    request.disregard(&reply);
                    return Err(indeterminate(MASTER_CHANGED, true));
                }
                if let Value::Array(parts) = &reply.value
                    && parts
                        .iter()
                        .any(|part| matches!(part, Value::ServerError(_)))
                {
                    // The replicas could not be awaited.
                    request.disregard(&reply);
                }
                match reply.value.extract_error() {
                    Ok(value) => Ok(Reply { value, token }),
                    Err(error) => Err(self.server_error(error)),
                }
            }
            Outcome::NotSent => Err(SendError {
                error: EngineError::new(EngineErrorKind::NotConnected, "the connection has ended"),
                broken: true,
                not_sent: true,
            }),
            Outcome::Unanswered => Err(indeterminate("the connection has ended", true)),
            Outcome::Expired => Err(indeterminate(NO_REPLY, false)),
        }
    }

    fn server_error(&self, error: RedisError) -> SendError {
        let replica = is_replica(&error) && elapsed_since(self.created_at) > REPLICA_GRACE;
        SendError {
            error: with_message(error_kind(&error), error),
            broken: replica,
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

    /// Returns `true` if the connection is known to have ended.
    pub(crate) fn has_ended(&self) -> bool {
        match &self.transport {
            Transport::Pipelined(_, driver) => driver.has_ended(),
            Transport::Direct(..) => false,
        }
    }

    /// Waits until the connection has ended; forever if only its requests reveal that.
    pub(crate) async fn ended(&self) {
        match &self.transport {
            Transport::Pipelined(_, driver) => driver.ended().await,
            Transport::Direct(..) => std::future::pending().await,
        }
    }

    /// Ends the connection, which is no longer usable.
    pub(crate) fn end(&self) {
        if let Transport::Pipelined(_, driver) = &self.transport {
            driver.end();
        }
    }
}

async fn send_direct(
    io: IoThread,
    redis: &MultiplexedConnection,
    timer: &ReplyTimer,
    request: &Request<'_>,
    deadline: Instant,
) -> Result<Outcome, SendError> {
    let indeterminate = |error: EngineError, broken| SendError {
        error,
        broken,
        not_sent: false,
    };
    timer.start();
    let reply: Result<RedisResult<Value>, _> = match request.operation {
        Operation::Command(command) => {
            let mut redis = redis.clone();
            io.timeout_at(deadline, redis.send_packed_command(command))
                .await
        }
        _ => Ok(Err((ErrorKind::Client, "not for this connection").into())),
    };
    match reply {
        Ok(Err(error)) if is_broken(&error) => {
            let error = EngineError::new(EngineErrorKind::Indeterminate, error);
            Err(indeterminate(error, true))
        }
        Ok(reply) => {
            timer.stop();
            match reply {
                Ok(value) => Ok(Outcome::Reply(value, None)),
                Err(error) => Err(indeterminate(
                    with_message(error_kind(&error), error),
                    false,
                )),
            }
        }
        Err(_) if timer.is_over() => Ok(Outcome::Unanswered),
        Err(_) => Ok(Outcome::Expired),
    }
}

impl ReplyTimer {
    pub(crate) fn new(timeouts: Timeouts) -> ReplyTimer {
        ReplyTimer {
            waiting_since: Mutex::default(),
            timeouts,
        }
    }

    fn start(&self) {
        self.waiting_since().get_or_insert_with(now);
    }

    fn stop(&self) {
        *self.waiting_since() = None;
    }

    fn is_over(&self) -> bool {
        let since = *self.waiting_since();
        since.is_some_and(|since| elapsed_since(since) >= self.timeouts.silence())
    }

    fn waiting_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.waiting_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
