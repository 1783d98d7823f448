//! Fencing tokens: each lock has its own counter, in its record, which stays from then on. It is not less
//! than the time, so that a record that was lost is no reason for a smaller one.

use crate::engine::error::EngineError;
use crate::engine::request::Claim;
use crate::engine::store::StoreEngine;
use crate::engine::store::errand::Start;
use crate::engine::store::machine::{Command, Reply};
use tokio::time::Instant;

impl StoreEngine {
    pub(crate) async fn fencing_token(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<Option<u64>, EngineError> {
        self.draw(claim, 0, deadline).await
    }

    pub(crate) async fn raise_fencing_token(
        &self,
        claim: &Claim,
        token: u64,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        Ok(self.draw(claim, token, deadline).await?.is_some())
    }

    async fn draw(
        &self,
        claim: &Claim,
        at_least: u64,
        deadline: Instant,
    ) -> Result<Option<u64>, EngineError> {
        let draw = Command::Number(claim.token, at_least);
        let reply = self
            .core
            .run(&claim.name, draw, Start::Known, deadline)
            .await?;
        Ok(match reply {
            Reply::Number { number, .. } => Some(number),
            _ => None,
        })
    }
}
