//! Releases a lock, and grants it to the first claim in its queue.

use crate::engine::error::EngineError;
use crate::engine::redis::RedisEngine;
use crate::engine::redis::conn::request::{Content, Via};
use crate::engine::redis::wire::error::is_try_again;
use crate::engine::redis::wire::reply::decode;
use crate::engine::request::Claim;
use tokio::time::Instant;

impl RedisEngine {
    /// Releases the lock, and grants it to the first claim in its queue; returns `false` if the claim did not
    /// own it.
    pub(crate) async fn release(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        let envelope = Content::Release(claim).by(Via::Runtime, deadline);
        let reply = match self.router.send(&claim.name, &envelope).await {
            // Boxed: few releases fail.
            Err(error) => match Box::pin(self.send_source(&claim.name, &envelope, error)).await {
                // While the slot moves between nodes, a script can use one key, but not several.
                Err(error) if is_try_again(&error) => {
                    return Box::pin(self.delete_if_owner(claim, deadline)).await;
                }
                reply => reply?,
            },
            reply => reply?,
        };
        decode(reply.value).map(|released: u8| released == 1)
    }

    /// Releases the lock regardless of its queue; returns `false` if the claim did not own it.
    pub(crate) async fn delete_if_owner(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        let (script, keys) = (&self.scripts.delete_if_owner, (&*claim.name, 1));
        let deleted = self.eval(Via::IoThread, script, keys, deadline, |command| {
            command
                .arg(&*claim.name)
                .arg(claim.token.encode(&mut [0; 37]));
        });
        deleted.await.map(|deleted: u8| deleted == 1)
    }
}
