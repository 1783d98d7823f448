//! Renewing the leases of locks.

use crate::engine::error::EngineError;
use crate::engine::request::Claim;
use crate::engine::store::StoreEngine;
use crate::engine::store::errand::Start;
use crate::engine::store::machine::{Command, Reply, Want};
use crate::util::join_all::join_all;
use tokio::time::Instant;

impl StoreEngine {
    pub(crate) async fn renew(
        &self,
        claims: &[Claim],
        deadline: Instant,
    ) -> Result<Vec<Result<bool, EngineError>>, EngineError> {
        let renewals = claims.iter().map(async |claim| {
            let renew = Command::Renew(Want::of(claim));
            let reply = self
                .core
                .run(&claim.name, renew, Start::Known, deadline)
                .await?;
            Ok(reply == Reply::Held)
        });
        Ok(join_all(renewals).await)
    }
}
