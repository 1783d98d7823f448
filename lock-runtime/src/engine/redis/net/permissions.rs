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
        let hello = self.ask::<Value>(Way::Io, &name, redis::cmd("HELLO"), until);
        if let Err(error) = hello.await
            && error.to_string().contains("unknown command")
        {
            let words = "it does not know RESP3, which grants come by: Redis 6 or newer is needed";
            return Err(EngineError::new(Fault::Refused, words));
        }
        let arguments = |command: &mut Cmd| {
            command.arg(&name).arg(&self.grants.channel);
        };
        let script = &self.scripts.permitted;
        let permitted = self.call::<Value>(Way::Io, script, (&name, 1), until, arguments);
        match permitted.await {
            Err(error) if error.fault == Fault::Refused && is_forbidden(&error) => {
                let all = self.names.all();
                let words = format!(
                    "the user has no permission that locks need ({error}); permit them all: \
                     `ACL SETUSER … ~{all} &{all} {COMMANDS}`"
                );
                Err(EngineError::new(Fault::Refused, words))
            }
            _ => Ok(()),
        }
    }
}

fn is_forbidden(error: &EngineError) -> bool {
    let error = error.source.downcast_ref::<redis::RedisError>();
    error.is_some_and(|error| error.code() == Some("NOPERM"))
}
