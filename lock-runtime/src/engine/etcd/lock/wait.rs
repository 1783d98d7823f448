//! Waiting in the line of a lock, which a watch follows.

use crate::engine::common::line::Line;
use crate::engine::common::upkeep::Kept;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::etcd::EtcdEngine;
use crate::engine::etcd::lock::core::{Core, MAX_ROUNDS, too_busy};
use crate::engine::etcd::lock::entry::value_of;
use crate::engine::etcd::lock::record::{Known, Record};
use crate::engine::etcd::lock::renew::Move;
use crate::engine::etcd::wire::messages::{
    TxnRequest, WatchCancel, WatchCommand, WatchCreate, WatchResponse,
};
use crate::engine::etcd::wire::txn;
use crate::engine::request::{Claim, EnqueueReply, ServerTime};
use crate::engine::token::Token;
use prost::bytes::Bytes;
use std::slice::from_ref;
use std::sync::Arc;
use tokio::time::Instant;

impl EtcdEngine {
    pub(crate) async fn enqueue(
        &self,
        claim: &Claim,
        _: Option<ServerTime>,
        deadline: Instant,
    ) -> Result<EnqueueReply, EngineError> {
        if let Some(known) = self.core.known(claim) {
            return Ok(known);
        }
        self.core.claims.enter(claim);
        let enqueue = |core: Arc<Core>| core.enqueue(claim.clone());
        let entered = self.core.run(deadline, enqueue).await;
        if let Ok(EnqueueReply::Stale) = entered {
            // The caller knows, and continues under another token.
            self.core.claims.forget_unless_ending(claim.token);
        }
        entered
    }
}

impl Core {
    /// Enters the line, or looks at the claim's place in it.
    pub(crate) async fn enqueue(
        self: Arc<Self>,
        claim: Claim,
    ) -> Result<EnqueueReply, EngineError> {
        let Some(record) = self.claims.find_open(claim.token) else {
            return Ok(EnqueueReply::Stale);
        };
        let _turn = record.turn.lock().await;
        let entered = self.settle(&claim).await;
        if !matches!(entered, Ok(EnqueueReply::Queued(_))) {
            self.stop_watching(claim.token);
        }
        entered
    }

    /// Makes requests until it is known what has become of the claim.
    async fn settle(self: &Arc<Self>, claim: &Claim) -> Result<EnqueueReply, EngineError> {
        for _ in 0..MAX_ROUNDS {
            if let Some(known) = self.known(claim) {
                return Ok(known);
            }
            let Some(record) = self.claims.find_open(claim.token) else {
                return Ok(EnqueueReply::Stale);
            };
            match self.claims.known(claim.token, self.clock.now()) {
                Known::Gone => return Ok(EnqueueReply::Stale),
                Known::MustMove => self.move_ahead(claim, record).await?,
                _ => self.enter(claim).await?,
            }
        }
        Err(too_busy())
    }

    /// Enters the line, or reads it again.
    async fn enter(&self, claim: &Claim) -> Result<(), EngineError> {
        let range = self.keys.line(&claim.name);
        let lease = self.share_lease(from_ref(claim)).await?;
        let Some(record) = self.claims.find_open(claim.token) else {
            return Ok(());
        };
        let (key, value) = (&record.key.bytes, value_of(claim.token));
        self.watch(claim.token, &range).await?;
        let mut request = TxnRequest {
            compare: Vec::new(),
            success: vec![txn::range(&range)],
            failure: vec![txn::range(&range)],
        };
        if !record.has_entered {
            let put = record.put(claim.token, lease.lease().id);
            request.compare.push(txn::is_absent(key.clone()));
            request.success.insert(0, put);
        }
        let written = self.write(&lease, request, None).await;
        let may_have_entered = match &written {
            Ok(written) => written.as_ref().is_some_and(|it| it.succeeded),
            Err(error) => error.kind == EngineErrorKind::Indeterminate,
        };
        if may_have_entered {
            self.claims.set_entered(claim.token);
        }
        let Some(written) = written? else {
            return Ok(());
        };
        let revision = written.revision;
        let keys = written.ranges().next().unwrap_or_default();
        match keys.iter().find(|kv| kv.key == *key) {
            Some(mine) if mine.value == value => {
                self.claims.settle(claim.token, mine.lease);
                self.claims.read(claim.token, Line::new(keys), revision);
            }
            _ if record.has_entered => {
                self.stop_watching(claim.token);
                self.claims.set_gone(claim.token);
            }
            // Another client has written to this key.
            _ => self.claims.move_on(claim, &Line::new(keys)),
        }
        Ok(())
    }

    /// Attaches the key of a claim that holds the lock, or is the next to do so, to a new lease.
    async fn move_ahead(&self, claim: &Claim, record: Record) -> Result<(), EngineError> {
        let (since, age) = (self.clock.now(), claim.ttl / 10);
        let lease = self.leases.join_since(claim.ttl, 1, since, age).await?;
        let moved = self
            .attach(&[Move::new(claim, record, Some(lease))])
            .await?;
        if moved.is_empty() {
            self.claims.must_read_again(claim.token);
        }
        Ok(())
    }

    /// Returns what is known of a waiting claim without a request.
    pub(crate) fn known(self: &Arc<Self>, claim: &Claim) -> Option<EnqueueReply> {
        let now = self.clock.now();
        match self.claims.known(claim.token, now) {
            Known::Granted => {
                self.stop_watching(claim.token);
                let open = self.claims.hold(claim.token, now, claim.ttl);
                open.then_some(EnqueueReply::AlreadyHeld(claim.ttl))
            }
            Known::Waits(place) => {
                let server_time = ServerTime(now.elapsed_since(self.started));
                Some(EnqueueReply::Queued(place.status(server_time)))
            }
            Known::MustMove | Known::Nothing | Known::Gone => None,
        }
    }

    /// Watches the line that a claim enters. What the server is sent next mostly finds the watch begun.
    async fn watch(
        &self,
        token: Token,
        (key, range_end): &(Bytes, Bytes),
    ) -> Result<(), EngineError> {
        let connection = self.client.connection().await?;
        if self.claims.begin_to_read(token, &connection) {
            return Ok(());
        }
        self.stop_watching(token);
        connection.watch(WatchCommand::Create(WatchCreate {
            key: key.clone(),
            range_end: range_end.clone(),
            start_revision: 0,
            watch_id: self.claims.begin_to_watch(token, &connection),
        }));
        Ok(())
    }

    pub(crate) fn stop_watching(&self, token: Token) {
        if let Some(watch) = self.claims.take_watch(token) {
            self.cancel_watch(watch);
        }
    }

    fn cancel_watch(&self, watch_id: i64) {
        if let Some(connection) = self.client.present() {
            connection.watch(WatchCommand::Cancel(WatchCancel { watch_id }));
        }
    }

    /// Follows what a watch reports.
    pub(crate) fn on_watch(&self, message: &WatchResponse) {
        let Some((event, is_done)) = self.claims.follow(message) else {
            return;
        };
        if !message.canceled && is_done {
            self.cancel_watch(message.watch_id);
        }
        // Unless the history was compacted, the server has refused the watch: its user may have to log in
        // again.
        if message.canceled
            && message.compact_revision == 0
            && let Some(connection) = self.client.present()
        {
            connection.end();
        }
        (self.handler)(event);
    }
}
