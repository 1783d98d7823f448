//! Releases a lock, and grants it to the first claim in its queue.

use crate::engine::error::EngineError;
use crate::engine::redis::conn::request::Request;
use crate::engine::redis::lock::locks::{Locks, Via};
use crate::engine::redis::scripts::Script;
use crate::engine::redis::wire::error::{is_server_error, is_try_again};
use crate::engine::request::Claim;
use redis::ServerErrorKind;
use tokio::time::Instant;

impl Locks {
    /// Releases the lock, and grants it to the first claim in its queue; returns `false` if the claim did not
    /// own it.
    pub(crate) async fn release(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        // The claim's acquisition may be under way on a connection that broke.
        self.router.kill_broken(&claim.name, deadline).await?;
        let request = Request::release(claim);
        let released = self.router.send(&claim.name, &request, deadline).await;
        match released.and_then(|reply| reply.decode::<u8>()) {
            // Boxed: few releases are repeated.
            Err(error) if is_server_error(&error, ServerErrorKind::NoScript) => {
                let script = &self.scripts.release;
                Box::pin(self.release_by(script, claim, deadline)).await
            }
            // While the slot moves between nodes, a script can use one key, but not several.
            Err(error) if is_try_again(&error) => {
                Box::pin(self.delete_if_owner(claim, deadline)).await
            }
            released => released.map(|released| released == 1),
        }
    }

    /// Releases the lock with that script.
    pub(crate) async fn release_by(
        &self,
        script: &Script,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        let absent_key = self.keys.absent_key(&claim.name);
        let keys = (&*claim.name, 3 + absent_key.iter().count());
        let released = self.eval(Via::IoThread, script, keys, deadline, |command| {
            self.queue_keys(command, claim);
            command
                .arg(&absent_key)
                .arg(claim.token.encode(&mut [0; 37]));
        });
        released.await.map(|released: u8| released == 1)
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
