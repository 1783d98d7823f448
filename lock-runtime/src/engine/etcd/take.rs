//! Taking a lock from a holder: its key is deleted. No claim enters a line twice under one token, so it is
//! taken for good.

use crate::engine::common::line::{Line, Place};
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::etcd::EtcdEngine;
use crate::engine::etcd::keys::Range;
use crate::engine::etcd::lock::core::{Core, MAX_ROUNDS, too_busy};
use crate::engine::etcd::view::text;
use crate::engine::etcd::wire::error::Failure;
use crate::engine::etcd::wire::messages::{KeyValue, PutRequest, RangeRequest, TxnRequest};
use crate::engine::etcd::wire::txn;
use crate::engine::operations::Taken;
use crate::engine::token::Token;
use std::sync::Arc;
use tokio::time::Instant;

impl EtcdEngine {
    pub(crate) async fn take(
        &self,
        name: &str,
        token: &str,
        at_least: u64,
        deadline: Instant,
    ) -> Result<Taken, EngineError> {
        let (line, token) = (self.core.keys.line(name), Arc::from(token));
        let take = move |core: Arc<Core>| core.take(line, token, at_least);
        self.core.run(deadline, take).await
    }
}

impl Core {
    /// Takes the lock from the claim that [`view`](Core::view) shows by that token, and draws a fencing
    /// token. A claim of this library that waits is taken out of the line, too.
    pub(crate) async fn take(
        self: Arc<Self>,
        line: Range,
        token: Arc<str>,
        at_least: u64,
    ) -> Result<Taken, EngineError> {
        for _ in 0..MAX_ROUNDS {
            let found = self.range(&RangeRequest::in_order(&line)).await?;
            let revision = found.header.map_or(0, |header| header.revision);
            if number(revision) < at_least {
                return Err(too_low(revision));
            }
            let found = Line::new(found.kvs);
            let mut claims = found.entries().iter();
            let claim = claims.find(|entry| *text(&self.keys, entry) == *token);
            // Another client that waits would not notice, and take the end of the one before it for its turn.
            let Some(claim) = claim.filter(|it| holds(&found, it) || is_ours(it)) else {
                return Ok(Taken {
                    held: false,
                    pinned: false,
                    fencing_token: number(revision),
                });
            };
            if let Some(taken) = self.take_out(&line, claim).await? {
                return Ok(taken);
            }
        }
        Err(too_busy())
    }

    /// Deletes the key of a claim, and draws a number, in one transaction. Returns `None` if the claim has
    /// changed.
    async fn take_out(&self, line: &Range, claim: &KeyValue) -> Result<Option<Taken>, EngineError> {
        let key = &claim.key;
        let fence = PutRequest {
            key: self.keys.fence(),
            ..PutRequest::default()
        };
        let request = TxnRequest {
            compare: vec![
                txn::was_created_at(key.clone(), claim.create_revision),
                txn::has_value(key.clone(), claim.value.clone()),
            ],
            // What is read is the line as it was until then.
            success: vec![txn::range(line), txn::delete(key.clone()), txn::put(fence)],
            failure: Vec::new(),
        };
        let written = self.write_in_epoch(request, None).await;
        let written = written.map_err(Failure::into_engine_error)?;
        let (succeeded, revision) = (written.succeeded, written.revision);
        let before = Line::new(written.ranges().next().unwrap_or_default());
        Ok(succeeded.then(|| Taken {
            held: holds(&before, claim),
            pinned: false,
            fencing_token: number(revision),
        }))
    }
}

fn holds(line: &Line<KeyValue>, claim: &KeyValue) -> bool {
    line.place_of(|entry| entry.key == claim.key) == Some(Place::Holds)
}

fn is_ours(claim: &KeyValue) -> bool {
    Token::read(&claim.value).is_some()
}

/// Returns the fencing token that is drawn at a revision. What is drawn later is greater.
fn number(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or_default()
}

fn too_low(revision: i64) -> EngineError {
    let words = format!(
        "the next fencing token would be {revision}, the cluster's revision; it can't be raised"
    );
    EngineError::new(EngineErrorKind::Rejected, words)
}
