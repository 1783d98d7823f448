//! The requests of a claim that holds its lock: a fencing token, and the downgrade.

use crate::engine::error::EngineError;
use crate::engine::etcd::core::{Core, has_ended};
use crate::engine::etcd::entry::value_of;
use crate::engine::etcd::failure::Failure;
use crate::engine::etcd::messages::{PutRequest, TxnRequest};
use crate::engine::etcd::txn;
use crate::engine::request::Claim;
use crate::engine::token::Token;
use std::sync::Arc;
use std::time::Duration;

impl Core {
    /// Draws a number greater than all before it, if the claim holds the lock.
    pub(super) async fn fencing_token(
        self: Arc<Self>,
        claim: Claim,
    ) -> Result<Option<u64>, EngineError> {
        let Some(record) = self.claims.find_open(claim.token) else {
            return Ok(None);
        };
        // Every write has a revision greater than all before it.
        let fence = PutRequest {
            key: self.keys.fence(),
            ..PutRequest::default()
        };
        let holds = txn::has_value(record.slot.key.clone(), value_of(claim.token));
        let draw = TxnRequest {
            compare: vec![holds],
            success: vec![txn::put(fence)],
            failure: Vec::new(),
        };
        let reply = self.execute(draw).await?;
        let revision = u64::try_from(reply.revision()).ok();
        Ok(revision.filter(|_| reply.succeeded))
    }

    /// Puts the token `to`, which has been added, under the claim's key, which keeps its place. Returns for how long it
    /// holds the lock; `None` if the claim does not.
    pub(super) async fn downgrade(
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
        let key = &record.slot.key;
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
        let written = self.write_in_session(request, None).await;
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
