//! Turns an exclusive hold into one that shares the lock, under a new token.

use crate::engine::error::EngineError;
use crate::engine::redis::RedisEngine;
use crate::engine::redis::conn::replicas::check_replica_count;
use crate::engine::redis::conn::request::Via;
use crate::engine::redis::wire::encode::milliseconds;
use crate::engine::request::Claim;
use crate::engine::token::Token;
use redis::Cmd;
use std::time::Duration;
use tokio::time::Instant;

impl RedisEngine {
    /// Turns an exclusive hold into one that shares the lock, with the token `to`. Returns for how long that
    /// token holds the lock, or `None` if the claim did not own it.
    pub(crate) async fn downgrade(
        &self,
        claim: &Claim,
        to: Token,
        deadline: Instant,
    ) -> Result<Option<Duration>, EngineError> {
        let absent_key = self.keys.absent_key(&claim.name);
        let keys = (&*claim.name, 3 + absent_key.iter().count());
        let script = &self.scripts.downgrade;
        let via = match claim.replicas {
            0 => Via::IoThread,
            replicas => Via::Replicas(replicas),
        };
        let arguments = |command: &mut Cmd| {
            self.queue_keys(command, &claim.name);
            command
                .arg(&absent_key)
                .arg(claim.token.encode(&mut [0; 37]))
                .arg(to.encode(&mut [0; 37]))
                .arg(milliseconds(claim.ttl));
        };
        let (left, known): (u64, u32) = match via {
            Via::Replicas(_) => self.eval(via, script, keys, deadline, arguments).await?,
            _ => (self.eval(via, script, keys, deadline, arguments).await?, 0),
        };
        if left > 0 {
            check_replica_count(known, claim.replicas)?;
        }
        Ok((left > 0).then(|| Duration::from_millis(left)))
    }
}
