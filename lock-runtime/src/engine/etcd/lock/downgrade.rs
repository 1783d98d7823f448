//! Downgrading a claim: its key gets another token, and keeps its place in the line.

use crate::engine::error::EngineError;
use crate::engine::etcd::EtcdEngine;
use crate::engine::etcd::lock::core::{Core, has_ended};
use crate::engine::etcd::lock::entry::value_of;
use crate::engine::etcd::wire::error::Failure;
use crate::engine::etcd::wire::messages::{PutRequest, TxnRequest};
use crate::engine::etcd::wire::txn;
use crate::engine::request::Claim;
use crate::engine::token::Token;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

impl EtcdEngine {
    pub(crate) async fn downgrade(
        &self,
        claim: &Claim,
        to: Token,
        deadline: Instant,
    ) -> Result<Option<Duration>, EngineError> {
        let downgrade = |core: Arc<Core>| {
            core.claims.add_token(claim.token, to);
            core.downgrade(claim.clone(), to)
        };
        self.core.run(deadline, downgrade).await
    }
}

impl Core {
    /// Puts the token `to`, which has been added, under the claim's key, which keeps its place. Returns for
    /// how long it holds the lock; `None` if the claim does not.
    pub(crate) async fn downgrade(
        self: Arc<Self>,
        claim: Claim,
        to: Token,
    ) -> Result<Option<Duration>, EngineError> {
        let held = self.replace(&claim, to).await?;
        if !held {
            self.claims.forget_unless_ending(to);
        }
        Ok(held.then_some(claim.ttl))
    }

    async fn replace(&self, claim: &Claim, to: Token) -> Result<bool, EngineError> {
        let record = self.claims.find_open(to).ok_or_else(has_ended)?;
        let _turn = record.turn.lock().await;
        if self.claims.find_open(to).is_none() {
            return Err(has_ended());
        }
        if self.claims.find_open(claim.token).is_none() {
            // An earlier try may have done it.
            return Ok(self.claims.is_held(to));
        }
        // A renewal may have moved the key meanwhile.
        self.claims.share_leases(claim.token, to);
        let since = self.clock.now();
        let key = &record.key.bytes;
        let put = PutRequest {
            key: key.clone(),
            value: value_of(to),
            lease: 0,
            ignore_lease: true,
        };
        let request = TxnRequest {
            compare: vec![txn::has_value(key.clone(), value_of(claim.token))],
            success: vec![txn::put(put)],
            failure: vec![txn::get(key.clone())],
        };
        let written = self.write_in_epoch(request, None).await;
        let written = written.map_err(Failure::into_engine_error)?;
        let succeeded = written.succeeded;
        let mut found = written.ranges().flatten();
        let shares = found.any(|kv| kv.value == value_of(to));
        if !succeeded && !shares {
            return Ok(false);
        }
        let open = self.claims.hold(to, since, claim.ttl);
        self.claims.forget(claim.token);
        Ok(open)
    }
}
