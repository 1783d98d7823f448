//! Drawing fencing tokens: they are revisions of the server.

use crate::engine::error::EngineError;
use crate::engine::etcd::EtcdEngine;
use crate::engine::etcd::lock::core::Core;
use crate::engine::etcd::lock::entry::value_of;
use crate::engine::etcd::wire::messages::{PutRequest, TxnRequest};
use crate::engine::etcd::wire::txn;
use crate::engine::request::Claim;
use std::sync::Arc;
use tokio::time::Instant;

impl EtcdEngine {
    pub(crate) async fn fencing_token(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<Option<u64>, EngineError> {
        self.core
            .run(deadline, |core| core.fencing_token(claim.clone()))
            .await
    }
}

impl Core {
    /// Draws a number greater than all before it, if the claim holds the lock.
    pub(crate) async fn fencing_token(
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
        let holds = txn::has_value(record.key.bytes.clone(), value_of(claim.token));
        let draw = TxnRequest {
            compare: vec![holds],
            success: vec![txn::put(fence)],
            failure: Vec::new(),
        };
        let reply = self.execute(draw).await?;
        let revision = u64::try_from(reply.revision()).ok();
        Ok(revision.filter(|_| reply.succeeded))
    }
}
