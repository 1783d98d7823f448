//! Waiting in the line of a lock, which a watch follows.

use crate::engine::error::EngineError;
use crate::engine::etcd::core::{Core, MAX_ROUNDS, too_busy};
use crate::engine::etcd::line::{Line, Place};
use crate::engine::etcd::messages::{
    TxnRequest, WatchCancel, WatchCommand, WatchCreate, WatchResponse,
};
use crate::engine::etcd::record::{Known, value_of};
use crate::engine::etcd::txn;
use crate::engine::request::{Claim, EnqueueReply, QueueStatus, ServerTime};
use crate::engine::token::Token;
use crate::error::Holder;
use prost::bytes::Bytes;
use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

/// The end of the holder's lease is told, so no claim needs to ask because of it.
const TOLD: Duration = Duration::from_secs(24 * 60 * 60);

impl Core {
    /// Enters the line, or looks at the claim's place in it.
    pub(super) async fn enqueue(
        self: Arc<Self>,
        claim: Claim,
    ) -> Result<EnqueueReply, EngineError> {
        let Some(record) = self.claims.find_open(claim.token) else {
            return Ok(EnqueueReply::Stale);
        };
        let _turn = record.turn.lock().await;
        let entered = self.enter(&claim).await;
        if !matches!(entered, Ok(EnqueueReply::Queued(_))) {
            self.stop_watching(claim.token);
        }
        entered
    }

    async fn enter(&self, claim: &Claim) -> Result<EnqueueReply, EngineError> {
        let range = self.keys.line(&claim.name);
        for _ in 0..MAX_ROUNDS {
            let lease = self.share_lease(from_ref(claim)).await?;
            let Some(record) = self.claims.find_open(claim.token) else {
                return Ok(EnqueueReply::Stale);
            };
            let since = self.clock.now();
            let key = &record.slot.key;
            self.watch(claim.token, &range).await?;
            let put = record.put(claim.token, lease.lease().id);
            let request = TxnRequest {
                compare: vec![txn::is_absent(key.clone())],
                success: vec![put, txn::range(&range)],
                failure: vec![txn::range(&range)],
            };
            let Some(mut written) = self.write(&lease, request, None).await? else {
                continue;
            };
            let keys = written.ranges.pop().unwrap_or_default();
            let line = Line::new(keys, written.revision);
            let Some(line) = self.claims.read(claim.token, line) else {
                continue;
            };
            match line.place_of(key, &value_of(claim.token)) {
                Some(Place::Holds) => {
                    self.stop_watching(claim.token);
                    if !self.claims.hold(claim.token, since, claim.ttl) {
                        return Ok(EnqueueReply::Stale);
                    }
                    return Ok(match written.succeeded {
                        true => EnqueueReply::Granted(claim.ttl),
                        false => EnqueueReply::AlreadyHeld(claim.ttl),
                    });
                }
                Some(place) => return Ok(self.queued(place)),
                // Another client has written to this key.
                None => self.claims.move_on(claim, &line),
            }
        }
        Err(too_busy())
    }

    /// Returns what is known of a waiting claim without a request.
    pub(super) fn known(&self, claim: &Claim) -> Option<EnqueueReply> {
        match self.claims.known(claim.token) {
            Known::Granted => {
                let open = self.claims.hold(claim.token, self.clock.now(), claim.ttl);
                open.then_some(EnqueueReply::AlreadyHeld(claim.ttl))
            }
            Known::Waits(place) => Some(self.queued(place)),
            Known::Nothing => None,
        }
    }

    fn queued(&self, place: Place) -> EnqueueReply {
        let (position, has_others) = match place {
            Place::Holds => (0, false),
            Place::Waits { ahead, has_others } => (ahead, has_others),
        };
        EnqueueReply::Queued(QueueStatus {
            server_time: ServerTime(self.clock.now().elapsed_since(self.started)),
            holder_ttl: TOLD,
            position,
            has_others,
            holder: Holder::default(),
        })
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

    pub(super) fn stop_watching(&self, token: Token) {
        if let Some(watch) = self.claims.take_watch(token) {
            self.cancel_watch(watch);
        }
    }

    fn cancel_watch(&self, watch_id: i64) {
        if let Some(connection) = self.client.present() {
            connection.watch(WatchCommand::Cancel(WatchCancel { watch_id }));
        }
    }

    /// Tells the claim what its watch reports.
    pub(super) fn on_watch(&self, message: &WatchResponse) {
        let Some((event, is_done)) = self.claims.follow(message) else {
            return;
        };
        if !message.canceled && is_done {
            self.cancel_watch(message.watch_id);
        }
        // Unless the history was compacted, the server has refused the watch: its user may have to log in again.
        if message.canceled
            && message.compact_revision == 0
            && let Some(connection) = self.client.present()
        {
            connection.end();
        }
        (self.handler)(event);
    }
}
