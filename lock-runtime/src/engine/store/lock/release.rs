//! Releasing locks, and leaving their lines.

use crate::engine::error::EngineError;
use crate::engine::request::Claim;
use crate::engine::store::StoreEngine;
use crate::engine::store::errand::Start;
use crate::engine::store::machine::{Command, Reply};
use tokio::time::Instant;

impl StoreEngine {
    pub(crate) async fn release(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        self.core.waiting.lock().remove(&claim.token);
        let leave = Command::Leave(claim.token);
        let reply = self
            .core
            .run(&claim.name, leave, Start::Known, deadline)
            .await?;
        self.core.hand_on(&claim.name, claim.token);
        Ok(reply == Reply::Left { held: true })
    }

    /// A request that comes later finds another version.
    pub(crate) async fn cancel(
        &self,
        claim: &Claim,
        _in_flight: bool,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        self.release(claim, deadline).await
    }
}
