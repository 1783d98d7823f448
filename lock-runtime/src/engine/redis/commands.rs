//! Sends commands and scripts about locks.

use crate::engine::error::EngineError;
use crate::engine::redis::RedisEngine;
use crate::engine::redis::conn::request::{Content, Envelope, Reply, Via};
use crate::engine::redis::scripts::Script;
use crate::engine::redis::wire::error::is_server_error;
use crate::engine::redis::wire::reply::decode;
use crate::engine::request::Claim;
use redis::{Cmd, FromRedisValue, ServerErrorKind};
use std::sync::Arc;
use tokio::time::Instant;

impl RedisEngine {
    /// Sends a request again, with the source of its script, if it failed because the server did not know
    /// that.
    pub(crate) async fn send_source<'a>(
        &self,
        lock: &str,
        envelope: &Envelope<'a>,
        error: EngineError,
    ) -> Result<Reply<'a>, EngineError> {
        if !is_server_error(&error, ServerErrorKind::NoScript) {
            return Err(error);
        }
        let mut envelope = *envelope;
        envelope.delivery.with_source = true;
        self.router.send(lock, &envelope).await
    }

    /// Sends a command about a lock.
    pub(crate) async fn command<T: FromRedisValue>(
        &self,
        via: Via,
        lock: &str,
        command: Cmd,
        deadline: Instant,
    ) -> Result<T, EngineError> {
        let command = Arc::new(command);
        let envelope = Content::Command(&command).by(via, deadline);
        let reply = self.router.send(lock, &envelope).await;
        decode(reply?.value)
    }

    /// Calls a script on a lock's keys. `arguments` appends the keys, then the other arguments.
    pub(crate) async fn eval<T: FromRedisValue>(
        &self,
        via: Via,
        script: &Script,
        (lock, keys): (&str, usize),
        deadline: Instant,
        arguments: impl Fn(&mut Cmd),
    ) -> Result<T, EngineError> {
        let call = |with_source| {
            let mut command = script.command(with_source, keys);
            arguments(&mut command);
            self.command(via, lock, command, deadline)
        };
        match call(false).await {
            Err(error) if is_server_error(&error, ServerErrorKind::NoScript) => call(true).await,
            reply => reply,
        }
    }

    pub(crate) fn queue_keys(&self, command: &mut Cmd, lock: &str) {
        command
            .arg(lock)
            .arg(self.keys.queue(lock).to_string())
            .arg(self.keys.waiters(lock).to_string());
    }

    pub(crate) fn tombstone(&self, claim: &Claim) -> String {
        let keys = &self.keys;
        keys.tombstone(&claim.name, claim.token.encode(&mut [0; 37]))
    }
}
