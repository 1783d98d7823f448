//! Asks whether the ensemble has a leader that a majority follows.

use crate::engine::error::EngineError;
use crate::engine::zookeeper::ZooKeeperEngine;
use tokio::time::Instant;

impl ZooKeeperEngine {
    /// Proves the session of the locks with the default ttl. That is a write, since a server without a leader
    /// replies to reads for a while.
    pub(crate) async fn ping(&self, deadline: Instant) -> Result<(), EngineError> {
        let claims = self.claims.clone();
        let session = claims.sessions.of(self.default_ttl);
        let prove = async move { claims.prove(&session, deadline).await.map(drop) };
        self.claims.run(deadline, prove).await
    }
}
