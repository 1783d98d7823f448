//! One connection: it sends requests, and finds out when it breaks or falls silent.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::redis::net::batch::{Batcher, Request};
use crate::engine::redis::net::client_id::ClientId;
use crate::engine::redis::net::driver::Driver;
use crate::engine::redis::net::endpoint::Endpoint;
use crate::engine::redis::net::error::{error_kind, is_broken, is_replica, with_message};
use crate::util::io_thread::IoThread;
use crate::util::time::{elapsed_since, now};
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, FromRedisValue, RedisError, RedisResult, Value};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A connection to a replica is abandoned only after this time: reconnecting sooner may lead to the same
/// server again.
const REPLICA_GRACE: Duration = Duration::from_millis(500);

pub(crate) const MASTER_CHANGED: &str = "the server is no longer the master";

/// A connection, driven by the runtime it was made on.
#[derive(Clone)]
pub(crate) struct Connection {
    /// Distinguishes it from earlier and later connections to the same server.
    pub(crate) generation: u64,
    pub(crate) client_id: Option<ClientId>,
    pub(crate) endpoint: Endpoint,
    created_at: Instant,
    io: IoThread,
    transport: Transport,
    reply_timer: Arc<ReplyTimer>,
    /// After this time without any reply the connection is abandoned.
    silence_timeout: Duration,
}

/// The way requests reach the server.
#[derive(Clone)]
pub(crate) enum Transport {
    /// The caller sends each request.
    Direct(MultiplexedConnection),
    /// Like `Direct`, and the caller's runtime drives the connection.
    Driven(MultiplexedConnection, Arc<Driver>),
    Batched(Arc<Batcher>),
}

/// The time since which a request has been waiting without any reply arriving.
#[derive(Default)]
struct ReplyTimer(Mutex<Option<Instant>>);

/// The reason why a request got no reply.
pub(crate) struct SendError {
    pub(crate) error: EngineError,
    /// The connection is no longer usable.
    pub(crate) broken: bool,
}

impl Connection {
    pub(crate) fn new(
        (generation, client_id): (u64, Option<ClientId>),
        endpoint: Endpoint,
        io: IoThread,
        transport: Transport,
        silence_timeout: Duration,
    ) -> Connection {
        Connection {
            generation,
            client_id,
            endpoint,
            created_at: now(),
            io,
            transport,
            reply_timer: Arc::default(),
            silence_timeout,
        }
    }

    /// Sends a request, and waits for its reply until the deadline.
    pub(crate) async fn send<T: FromRedisValue>(
        &self,
        request: impl Into<Request>,
        deadline: Instant,
    ) -> Result<T, SendError> {
        if self.endpoint.is_stale() {
            return Err(SendError {
                error: EngineError::new(EngineErrorKind::NotConnected, MASTER_CHANGED),
                broken: true,
            });
        }
        self.reply_timer.start();
        let reply = self
            .io
            .timeout_at(deadline, self.transport.send(request.into()));
        let reply = reply.await.map(|reply| reply.and_then(decode::<T>));
        let (error, broken) = match reply {
            // A former master does not know the locks that the new one grants.
            Ok(_) if self.endpoint.is_stale() => (
                EngineError::new(EngineErrorKind::Indeterminate, MASTER_CHANGED),
                true,
            ),
            Ok(Ok(reply)) => {
                self.reply_timer.stop();
                return Ok(reply);
            }
            Ok(Err(error)) if is_broken(&error) => (
                EngineError::new(EngineErrorKind::Indeterminate, error),
                true,
            ),
            Ok(Err(error)) => {
                self.reply_timer.stop();
                let replica = is_replica(&error) && elapsed_since(self.created_at) > REPLICA_GRACE;
                (with_message(error_kind(&error), error), replica)
            }
            Err(_) => {
                let words = "no answer from the server in time";
                let stalled = self.driver().is_some_and(|driver| driver.is_stalled());
                let silent = !stalled && self.reply_timer.elapsed() >= self.silence_timeout;
                (
                    EngineError::new(EngineErrorKind::Indeterminate, words),
                    silent,
                )
            }
        };
        Err(SendError { error, broken })
    }

    /// Returns what drives the connection, unless the I/O thread does.
    pub(crate) fn driver(&self) -> Option<&Arc<Driver>> {
        match &self.transport {
            Transport::Driven(_, driver) => Some(driver),
            _ => None,
        }
    }
}

impl Transport {
    async fn send(&self, request: Request) -> RedisResult<Value> {
        match self {
            // Boxed: a request that goes out in a batch does not need the room.
            Transport::Direct(redis) => {
                Box::pin(redis.clone().send_packed_command(&request.command))
                    .await?
                    .extract_error()
            }
            Transport::Driven(redis, driver) => {
                let mut redis = redis.clone();
                let sent = Box::pin(redis.send_packed_command(&request.command));
                driver.follow(sent).await?.extract_error()
            }
            Transport::Batched(batcher) => match batcher.submit(request).await {
                Ok(reply) => reply,
                Err(_) => Err((ErrorKind::Io, "the connection has ended").into()),
            },
        }
    }
}

fn decode<T: FromRedisValue>(value: Value) -> RedisResult<T> {
    T::from_redis_value(value).map_err(RedisError::from)
}

impl ReplyTimer {
    fn start(&self) {
        self.waiting_since().get_or_insert_with(now);
    }

    fn stop(&self) {
        *self.waiting_since() = None;
    }

    fn elapsed(&self) -> Duration {
        self.waiting_since().map_or(Duration::ZERO, elapsed_since)
    }

    fn waiting_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
