//! Renews all locks of a slot with one script.

use crate::engine::error::EngineError;
use crate::engine::redis::RedisEngine;
use crate::engine::redis::conn::replicas::check_replica_count;
use crate::engine::redis::conn::request::Via;
use crate::engine::redis::wire::encode::milliseconds;
use crate::engine::redis::wire::error::{is_try_again, unexpected_reply};
use crate::engine::request::Claim;
use crate::util::join_all::join_all;
use redis::Cmd;
use tokio::time::Instant;

impl RedisEngine {
    /// Renews each lock that its claim still owns, slot by slot.
    pub(crate) async fn renew(
        &self,
        claims: &[Claim],
        deadline: Instant,
    ) -> Result<Vec<Result<bool, EngineError>>, EngineError> {
        let slot = |claim: &Claim| self.router.shard_of(&claim.name).slot;
        let slots = claims.chunk_by(|one, next| slot(one) == slot(next));
        let renewed = join_all(slots.map(|claims| self.renew_slot(claims, deadline))).await;
        Ok(renewed.into_iter().flatten().collect())
    }

    async fn renew_slot(
        &self,
        claims: &[Claim],
        deadline: Instant,
    ) -> Vec<Result<bool, EngineError>> {
        match self.renew_batch(claims, deadline).await {
            Ok(renewed) => renewed,
            Err(error) if is_try_again(&error) => {
                let each = claims.iter().map(async |claim| {
                    let renewed = self.renew_batch(std::slice::from_ref(claim), deadline);
                    renewed.await?.pop().unwrap_or(Ok(false))
                });
                join_all(each).await
            }
            Err(error) => claims.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn renew_batch(
        &self,
        claims: &[Claim],
        deadline: Instant,
    ) -> Result<Vec<Result<bool, EngineError>>, EngineError> {
        let Some(first) = claims.first() else {
            return Ok(Vec::new());
        };
        let keys = (&*first.name, claims.len());
        let (script, arguments) = (&self.scripts.renew, |command: &mut Cmd| {
            for claim in claims {
                command.arg(&*claim.name);
            }
            for claim in claims {
                command
                    .arg(claim.token.encode(&mut [0; 37]))
                    .arg(milliseconds(claim.ttl));
            }
        });
        let (renewed, known): (Vec<u8>, u32) = match claims.iter().map(|c| c.replicas).max() {
            None | Some(0) => {
                let renewed = self.eval(Via::Patient, script, keys, deadline, arguments);
                (renewed.await?, 0)
            }
            Some(replicas) => {
                let via = Via::Replicas(replicas);
                self.eval(via, script, keys, deadline, arguments).await?
            }
        };
        if renewed.len() != claims.len() {
            let words = format!("{} replies to {} renewals", renewed.len(), claims.len());
            return Err(unexpected_reply(words));
        }
        let renewed = renewed.into_iter().zip(claims);
        Ok(renewed
            .map(|(renewed, claim)| match renewed {
                b'1' => check_replica_count(known, claim.replicas).map(|()| true),
                _ => Ok(false),
            })
            .collect())
    }
}
