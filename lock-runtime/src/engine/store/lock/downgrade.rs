//! Turning an exclusive hold into one that shares the lock.

use crate::engine::error::EngineError;
use crate::engine::request::Claim;
use crate::engine::store::StoreEngine;
use crate::engine::store::errand::Start;
use crate::engine::store::machine::{Command, Reply, Want};
use crate::engine::token::Token;
use std::time::Duration;
use tokio::time::Instant;

impl StoreEngine {
    /// A repetition begins the lease anew, as a renewal would.
    pub(crate) async fn downgrade(
        &self,
        claim: &Claim,
        to: Token,
        deadline: Instant,
    ) -> Result<Option<Duration>, EngineError> {
        let shares = Want {
            token: to,
            ..Want::of(claim)
        };
        let downgrade = Command::Downgrade(claim.token, shares);
        let reply = self
            .core
            .run(&claim.name, downgrade, Start::Known, deadline)
            .await?;
        Ok((reply == Reply::Held).then_some(claim.ttl))
    }
}
