//! Checks, when connecting, that the server knows and permits the commands that locks need.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::inspection::Inspection;
use crate::engine::redis::RedisEngine;
use crate::engine::redis::conn::request::Via;
use crate::engine::redis::wire::encode::command;
use crate::engine::redis::wire::error::redis_error;
use crate::engine::request::EngineFuture;
use crate::util::join_all::join_all;
use crate::util::time::deadline_in;
use crate::warning::{Warning, WarningKind};
use redis::{Cmd, Value};
use std::time::Duration;
use tokio::time::Instant;

/// The permissions that a user needs besides the keys and channels that begin with the prefix.
const COMMANDS: &str = "+@connection +set +get +mget +del +pexpire +pexpireat +pttl +time +type +exists \
                        +eval +evalsha +script|load +zadd +zcard +zpopmin +zrange +zrangebyscore \
                        +zrevrangebyscore +zremrangebyscore +zrank +zrem +zscore +hset +hget +hdel \
                        +hexists +publish +subscribe +pubsub|numsub";

impl RedisEngine {
    /// Inspects the servers, and what the user may do there.
    pub(crate) async fn inspect_all(&self, ttl: Duration, replicas: u32) -> Inspection {
        let mut found = self.inspector.inspect(ttl, replicas).await;
        let deadline = deadline_in(self.inspector.timeouts.command);
        if let Err(error) = self.check_permissions(deadline).await {
            let server = self.inspector.topology.to_string().into();
            let warning = Warning::new(&server, WarningKind::Permission, error.to_string());
            found.warnings.push(warning);
        }
        found
    }

    /// Fails if the server cannot store locks. A command that cannot be tried now counts as permitted.
    pub(crate) async fn check_permissions(&self, deadline: Instant) -> Result<(), EngineError> {
        let checks: [EngineFuture<'_, ()>; 3] = [
            Box::pin(self.check_scripts(deadline)),
            Box::pin(self.check_client_commands(deadline)),
            Box::pin(self.check_subscription(deadline)),
        ];
        join_all(checks).await.into_iter().collect()
    }

    /// Tries all commands of the scripts, and both ways to call a script.
    async fn check_scripts(&self, deadline: Instant) -> Result<(), EngineError> {
        let script = &self.scripts.check_permissions;
        for with_source in [true, false] {
            let mut call = script.command(with_source, 1);
            call.arg(self.keys.never()).arg(&self.subscription.channel);
            self.reject_if_permanent(self.try_command(call, deadline).await)?;
        }
        Ok(())
    }

    async fn check_client_commands(&self, deadline: Instant) -> Result<(), EngineError> {
        let no_client = i64::MAX.to_string();
        for words in [
            &["CLIENT", "INFO"][..],
            &["CLIENT", "KILL", "ID", &no_client],
        ] {
            match self.try_command(command(words), deadline).await {
                // Some proxies know only their own connections.
                Err(error) if is_unknown_command(&error) => {}
                reply => self.reject_if_permanent(reply)?,
            }
        }
        Ok(())
    }

    async fn check_subscription(&self, deadline: Instant) -> Result<(), EngineError> {
        match self.subscription.try_once(deadline).await {
            // It has our words.
            Err(error)
                if error.kind == EngineErrorKind::Rejected && redis_error(&error).is_none() =>
            {
                Err(error)
            }
            tried => self.reject_if_permanent(tried),
        }
    }

    async fn try_command(&self, command: Cmd, deadline: Instant) -> Result<Value, EngineError> {
        let name = self.keys.never();
        self.command(Via::IoThread, &name, command, deadline).await
    }

    /// Fails if the server will never carry out the command.
    fn reject_if_permanent<T>(&self, reply: Result<T, EngineError>) -> Result<(), EngineError> {
        let Err(error) = reply else { return Ok(()) };
        let words = if is_forbidden(&error) {
            let all = self.keys.all();
            format!(
                "the user lacks a permission that locks need ({error}); grant all of them: \
                 `ACL SETUSER … ~{all} &{all} {COMMANDS}`"
            )
        } else if is_unknown_command(&error) {
            format!("the server does not know a command that locks need ({error})")
        } else {
            return Ok(());
        };
        Err(EngineError::new(EngineErrorKind::Rejected, words))
    }
}

fn is_forbidden(error: &EngineError) -> bool {
    redis_error(error).is_some_and(|error| error.code() == Some("NOPERM"))
}

/// Returns `true` if the server does not know the command. Each version words this differently, and so do
/// scripts.
fn is_unknown_command(error: &EngineError) -> bool {
    let words = error.to_string().to_lowercase();
    [
        "unknown command",
        "unknown redis command",
        "unknown subcommand",
    ]
    .iter()
    .any(|unknown| words.contains(unknown))
}
