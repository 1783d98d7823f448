//! Drawing fencing tokens: they are the ids of transactions.

use crate::engine::error::EngineError;
use crate::engine::request::Claim;
use crate::engine::zookeeper::ZooKeeperEngine;
use crate::engine::zookeeper::lock::read::exists;
use tokio::time::Instant;

impl ZooKeeperEngine {
    /// A number that is drawn while the claim has the lock is greater than all that were drawn before.
    pub(crate) async fn fencing_token(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<Option<u64>, EngineError> {
        let Some(node) = self.claims.nodes.get(claim.token) else {
            return Ok(None);
        };
        let claims = self.claims.clone();
        self.claims
            .run(deadline, async move {
                let drawn = claims.prove(&node.session, deadline).await?.zxid;
                Ok(exists(&node, deadline).await?.then_some(drawn))
            })
            .await
    }
}
