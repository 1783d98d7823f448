//! Draws fencing tokens from a counter on the server.

use crate::engine::error::EngineError;
use crate::engine::redis::RedisEngine;
use crate::engine::redis::conn::request::Via;
use crate::engine::request::Claim;
use tokio::time::Instant;

impl RedisEngine {
    /// Returns a number greater than all before it, or `None` if the claim does not own the lock.
    pub(crate) async fn fencing_token(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<Option<u64>, EngineError> {
        let (script, keys) = (&self.scripts.fencing_token, (&*claim.name, 2));
        let token = self.eval(Via::IoThread, script, keys, deadline, |command| {
            command
                .arg(&*claim.name)
                .arg(self.keys.fencing_counter(&claim.name))
                .arg(claim.token.encode(&mut [0; 37]));
        });
        token.await
    }

    /// Makes all later fencing tokens of this member greater than `token`.
    pub(crate) async fn raise_fencing_token(
        &self,
        claim: &Claim,
        token: u64,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        let keys = (&*claim.name, 2);
        let raised = self.eval(
            Via::IoThread,
            &self.scripts.raise_fencing_token,
            keys,
            deadline,
            |command| {
                command
                    .arg(&*claim.name)
                    .arg(self.keys.fencing_counter(&claim.name))
                    .arg(claim.token.encode(&mut [0; 37]))
                    .arg(token);
            },
        );
        raised.await.map(|raised: u8| raised == 1)
    }
}
