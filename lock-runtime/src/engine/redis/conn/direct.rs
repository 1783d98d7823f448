//! A connection of the redis crate, which also delivers messages.

use crate::engine::redis::conn::batch::slab::Outcome;
use crate::engine::redis::conn::handshake::Handshake;
use crate::engine::redis::conn::request::{Envelope, Request};
use crate::engine::redis::wire::error::is_broken;
use crate::engine::timeouts::Timeouts;
use crate::util::io_thread::IoThread;
use crate::util::sync::{Mutex, MutexGuard};
use crate::util::time::{elapsed_since, now};
use redis::{ErrorKind, RedisError};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) struct Direct {
    io: IoThread,
    handshake: Handshake,
    timeouts: Timeouts,
    /// The time since which a request has been waiting without any reply arriving.
    waiting_since: Mutex<Option<Instant>>,
    ended: End,
}

/// Whether a connection has ended.
#[derive(Clone, Default)]
pub(crate) struct End(Arc<watch::Sender<bool>>);

impl End {
    pub(crate) fn set(&self) {
        self.0.send_replace(true);
    }
}

impl Direct {
    pub(crate) fn new(
        io: IoThread,
        handshake: Handshake,
        timeouts: Timeouts,
        ended: End,
    ) -> Direct {
        Direct {
            io,
            handshake,
            timeouts,
            waiting_since: Mutex::default(),
            ended,
        }
    }

    /// Sends a command. Returns its outcome, or the error that is its reply or that broke the connection.
    pub(crate) async fn send(&self, envelope: &Envelope<'_>) -> Result<Outcome, RedisError> {
        let Request::Command(command) = envelope.request else {
            return Err((ErrorKind::Client, "not for this connection").into());
        };
        self.waiting_since().get_or_insert_with(now);
        let mut redis = self.handshake.redis.clone();
        let reply = redis.send_packed_command(command);
        match self.io.timeout_at(envelope.deadline, reply).await {
            Ok(reply) => {
                if !reply.as_ref().is_err_and(is_broken) {
                    *self.waiting_since() = None;
                }
                reply.map(|value| Outcome::Reply(value, None))
            }
            Err(_) if self.is_silent() => Ok(Outcome::NoReply),
            Err(_) => Ok(Outcome::Expired),
        }
    }

    /// Returns `true` if the server has owed a reply for too long.
    fn is_silent(&self) -> bool {
        let since = *self.waiting_since();
        since.is_some_and(|since| elapsed_since(since) >= self.timeouts.silence())
    }

    pub(crate) fn end(&self) {
        self.ended.set();
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.ended.0.borrow()
    }

    /// Waits for the connection's end, which its requests may be the first to notice.
    pub(crate) async fn ended(&self) {
        let _ = self.ended.0.subscribe().wait_for(|ended| *ended).await;
    }

    fn waiting_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.waiting_since.lock()
    }
}
