//! What a server must know, and permit the user, is tried when connecting.

use crate::engine::error::{EngineError, Fault};
use crate::engine::redis::Redis;
use crate::engine::redis::commands::Way;
use redis::{Cmd, Value};
use tokio::time::Instant;

/// Beside the keys and channels that begin with the prefix.
const COMMANDS: &str = "+@connection +set +get +del +pexpire +pttl +time +exists +eval +evalsha \
                        +script|load +zadd +zcard +zpopmin +zrange +zrank +zrem +hset +hget +hdel \
                        +hexists +publish +subscribe +pubsub|numsub";

impl Redis {
    /// Fails if locks can't be kept there, and says why. What can't be tried now passes.
    pub(crate) async fn has_what_it_needs(&self, until: Instant) -> Result<(), EngineError> {
        let name = self.names.never();
        let ask = |command| self.ask::<Value>(Way::Io, &name, command, until);
        if let Err(error) = ask(redis::cmd("HELLO")).await
            && is_unknown(&error)
        {
            let words = "it does not know RESP3, which grants come by: Redis 6 or newer is needed";
            return Err(EngineError::new(Fault::Refused, words));
        }
        let arguments = |command: &mut Cmd| {
            command.arg(&name).arg(&self.grants.channel);
        };
        let script = &self.scripts.permitted;
        let mut by_source = script.by_source(1);
        arguments(&mut by_source);
        self.judge(ask(by_source).await)?;
        let by_digest = self.call(Way::Io, script, (&name, 1), until, arguments);
        self.judge::<Value>(by_digest.await)?;
        let mut info = redis::cmd("CLIENT");
        info.arg("INFO");
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("ID").arg(i64::MAX);
        for command in [info, kill] {
            match ask(command).await {
                // Some proxies know no connections but their own.
                Err(error) if is_unknown(&error) => {}
                answer => self.judge(answer)?,
            }
        }
        self.judge(self.grants.try_once(until).await)
    }

    /// What a server will never do is an error.
    fn judge<T>(&self, answer: Result<T, EngineError>) -> Result<(), EngineError> {
        let Err(error) = answer else { return Ok(()) };
        let words = if is_forbidden(&error) {
            let all = self.names.all();
            format!(
                "the user has no permission that locks need ({error}); permit them all: \
                 `ACL SETUSER … ~{all} &{all} {COMMANDS}`"
            )
        } else if is_unknown(&error) {
            format!("the server does not know a command that locks need ({error})")
        } else {
            return Ok(());
        };
        Err(EngineError::new(Fault::Refused, words))
    }
}

fn is_forbidden(error: &EngineError) -> bool {
    let source = error.source.downcast_ref::<redis::RedisError>();
    source.is_some_and(|source| source.code() == Some("NOPERM"))
}

/// Each version says it in words of its own, and so do scripts.
fn is_unknown(error: &EngineError) -> bool {
    let words = error.to_string().to_lowercase();
    [
        "unknown command",
        "unknown redis command",
        "unknown subcommand",
    ]
    .iter()
    .any(|unknown| words.contains(unknown))
}
