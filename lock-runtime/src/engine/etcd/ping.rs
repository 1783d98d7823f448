//! Asks whether the cluster has a leader that a majority follows.

use crate::engine::error::EngineError;
use crate::engine::etcd::EtcdEngine;
use crate::engine::etcd::lock::core::Core;
use crate::engine::etcd::wire::messages::TxnRequest;
use crate::engine::etcd::wire::txn;
use std::sync::Arc;
use tokio::time::Instant;

impl EtcdEngine {
    pub(crate) async fn ping(&self, deadline: Instant) -> Result<(), EngineError> {
        self.core.run(deadline, Core::ping).await
    }
}

impl Core {
    /// Reads a key as of now: the member has its leader confirm with a majority that it still is the leader.
    pub(crate) async fn ping(self: Arc<Self>) -> Result<(), EngineError> {
        let read = TxnRequest {
            success: vec![txn::get(self.keys.epoch())],
            ..TxnRequest::default()
        };
        self.execute(read).await.map(drop)
    }
}
