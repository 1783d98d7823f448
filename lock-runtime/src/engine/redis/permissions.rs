//! Checks, when connecting, that the server knows and permits the commands that locks need.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::redis::commands::{LockCommands, Via};
use crate::engine::redis::net::error::redis_error;
use redis::{Cmd, Value};
use tokio::time::Instant;

/// The permissions that a user needs besides the keys and channels that begin with the prefix.
const COMMANDS: &str = "+@connection +set +get +mget +del +pexpire +pexpireat +pttl +time +type +exists \
                        +eval +evalsha +script|load +zadd +zcard +zpopmin +zrange +zrangebyscore \
                        +zrevrangebyscore +zremrangebyscore +zrank +zrem +zscore +hset +hget +hdel \
                        +hexists +publish +subscribe +pubsub|numsub";

impl LockCommands {
    /// Fails if the server cannot store locks. A command that cannot be tried now counts as permitted.
    pub(crate) async fn check_permissions(&self, deadline: Instant) -> Result<(), EngineError> {
        let name = self.keys.never();
        let send = async |command: Cmd| {
            let sent = self.send::<Value>(Via::IoThread, &name, &command, deadline);
            sent.await
        };
        if let Err(error) = send(redis::cmd("HELLO")).await
            && is_unknown_command(&error)
        {
            let words =
                "the server does not support RESP3, which grants require; use Redis 6 or newer";
            return Err(EngineError::new(EngineErrorKind::Rejected, words));
        }
        let arguments = |command: &mut Cmd| {
            command.arg(&name).arg(&self.subscription.channel);
        };
        let script = &self.scripts.check_permissions;
        let mut by_source = script.eval(1);
        arguments(&mut by_source);
        self.reject_if_permanent(send(by_source).await)?;
        let by_digest = self.eval(Via::IoThread, script, (&name, 1), deadline, arguments);
        self.reject_if_permanent::<Value>(by_digest.await)?;
        let mut info = redis::cmd("CLIENT");
        info.arg("INFO");
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("ID").arg(i64::MAX);
        for command in [info, kill] {
            match send(command).await {
                // Some proxies know only their own connections.
                Err(error) if is_unknown_command(&error) => {}
                answer => self.reject_if_permanent(answer)?,
            }
        }
        self.reject_if_permanent(self.subscription.try_once(deadline).await)
    }

    /// Fails if the server will never carry out the command.
    fn reject_if_permanent<T>(&self, answer: Result<T, EngineError>) -> Result<(), EngineError> {
        let Err(error) = answer else { return Ok(()) };
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
