//! Releasing a claim, whether it waits or holds the lock: its key is deleted.

use crate::engine::common::ending::Ending;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::etcd::EtcdEngine;
use crate::engine::etcd::lock::core::Core;
use crate::engine::etcd::lock::entry::value_of;
use crate::engine::etcd::lock::record::Record;
use crate::engine::etcd::wire::messages::TxnRequest;
use crate::engine::etcd::wire::txn;
use crate::engine::request::Claim;
use crate::engine::retry::Retry;
use crate::engine::timeouts::OUTAGE;
use crate::engine::token::Token;
use crate::util::thread_end::PendingWork;
use crate::util::time::{deadline_in, now, sleep_until, timeout_at};
use std::sync::Arc;
use tokio::time::Instant;

impl EtcdEngine {
    pub(crate) async fn release(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        self.core.release(claim.token, deadline).await
    }

    // The requests of a claim are sent one after the other, so none can be late.
    pub(crate) async fn cancel(
        &self,
        claim: &Claim,
        _in_flight: bool,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        self.core.release(claim.token, deadline).await
    }

    pub(crate) async fn drain(&self, deadline: Instant) -> Result<(), EngineError> {
        self.core.run(deadline, Core::close).await
    }
}

impl Core {
    /// Ends a claim, and waits for that until the deadline. Returns `true` if it was in line.
    pub(crate) async fn release(
        self: &Arc<Self>,
        token: Token,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        match self.end(token) {
            Some(ending) => ending.finished(self.client.io, deadline).await,
            None => Ok(false),
        }
    }

    /// Begins to end a claim, if that has not begun: it leaves the line. Returns `None` if there is no such
    /// claim.
    pub(crate) fn end(self: &Arc<Self>, token: Token) -> Option<Ending> {
        self.stop_watching(token);
        let record = self.claims.find(token)?;
        let ending = record.ending.clone();
        if ending.begin() {
            let (core, pending) = (self.clone(), PendingWork::new());
            self.client.io.spawn_detached(async move {
                core.finish(token, record).await;
                drop(pending);
            });
        }
        Some(ending)
    }

    /// Deletes the claim's key, and repeats that until the server has replied.
    async fn finish(&self, token: Token, before: Record) {
        let _turn = before.turn.lock().await;
        // The turn before may have moved it.
        let record = self.claims.find(token).unwrap_or_else(|| before.clone());
        let (mut retry, mut may_have_run) = (Retry::default(), false);
        let give_up = deadline_in(OUTAGE);
        let ended = loop {
            let (key, value) = (&record.key.bytes, value_of(token));
            let delete = TxnRequest {
                compare: vec![txn::has_value(key.clone(), value)],
                success: vec![txn::delete(key.clone())],
                failure: Vec::new(),
            };
            match self.execute_in_batch(delete).await {
                Ok(reply) => break reply.succeeded || may_have_run,
                Err(error) => {
                    may_have_run |= error.kind == EngineErrorKind::Indeterminate;
                    let pause = retry.pause_after(&error);
                    record.ending.fail(error);
                    if now() >= give_up {
                        break may_have_run;
                    }
                    sleep_until(deadline_in(pause)).await;
                    let _ = timeout_at(give_up, self.client.until_connected()).await;
                }
            }
        };
        self.claims.forget(token);
        record.ending.finish(ended);
    }
}
