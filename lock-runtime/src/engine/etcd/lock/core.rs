//! What the requests of locks have in common: the state of the engine, and writes that only the present
//! connection carries out.

use crate::engine::common::claim_table::end_expired;
use crate::engine::common::upkeep::Kept;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::etcd::conn::client::Client;
use crate::engine::etcd::conn::connection::Connection;
use crate::engine::etcd::conn::leases::Leases;
use crate::engine::etcd::conn::server_lease::LeaseUse;
use crate::engine::etcd::keys::Keys;
use crate::engine::etcd::lock::claims::Claims;
use crate::engine::etcd::own_report::OwnReport;
use crate::engine::etcd::wire::error::Failure;
use crate::engine::etcd::wire::messages::{
    KeyValue, OpReply, PutRequest, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};
use crate::engine::etcd::wire::txn;
use crate::engine::event::{EngineEvent, EventHandler};
use crate::engine::request::Claim;
use crate::util::clock::{Clock, Timestamp};
use prost::bytes::Bytes;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::time::Instant;

/// How many times a request is repeated at once when the line has changed meanwhile.
pub(crate) const MAX_ROUNDS: u32 = 8;

pub(crate) struct Core {
    pub(crate) client: Arc<Client>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) claims: Arc<Claims>,
    pub(crate) keys: Keys,
    pub(crate) clock: Clock,
    pub(crate) started: Timestamp,
    pub(crate) handler: EventHandler,
    pub(crate) own_report: OwnReport,
    /// The server has accepted the watch of recalls.
    pub(crate) hears_recalls: Arc<AtomicBool>,
}

/// What a write found.
pub(crate) struct Written {
    pub(crate) succeeded: bool,
    /// Zero if others were executed together with it: they may have written after it has read.
    pub(crate) revision: i64,
    /// The replies to its parts.
    pub(crate) replies: Vec<OpReply>,
}

impl Written {
    /// Returns the keys of each range that was read.
    pub(crate) fn ranges(self) -> impl Iterator<Item = Vec<KeyValue>> {
        self.replies.into_iter().filter_map(|reply| match reply {
            OpReply::Range(range) => Some(range.kvs),
            _ => None,
        })
    }
}

pub(crate) fn not_ready(words: &'static str) -> EngineError {
    EngineError::new(EngineErrorKind::NotReady, words)
}

pub(crate) fn has_ended() -> EngineError {
    not_ready("the claim has ended")
}

pub(crate) fn too_busy() -> EngineError {
    not_ready("other clients change the lock all the time")
}

impl Core {
    /// Returns the state of an engine that has connected, and ends the claims that expire.
    pub(crate) fn start(
        client: Client,
        keys: Keys,
        clock: Clock,
        handler: EventHandler,
        hears_recalls: Arc<AtomicBool>,
    ) -> Arc<Core> {
        let (client, lost) = (Arc::new(client), handler.clone());
        let on_lost = move || lost(EngineEvent::Resubscribed);
        let core = Arc::new(Core {
            leases: Leases::new(client.clone(), clock.clone(), on_lost),
            client,
            claims: Arc::new(Claims::new(keys.clone(), clock.clone())),
            keys,
            started: clock.now(),
            clock,
            handler,
            own_report: OwnReport::default(),
            hears_recalls,
        });
        let (table, weak) = (core.claims.table.clone(), Arc::downgrade(&core));
        let expiry = end_expired(table, weak, |core, token| {
            core.end(token);
        });
        core.client.io.spawn_detached(expiry);
        core
    }

    /// Runs a request on the I/O thread, where it continues if the caller leaves.
    pub(crate) async fn run<T, F>(
        self: &Arc<Self>,
        deadline: Instant,
        request: impl FnOnce(Arc<Core>) -> F,
    ) -> Result<T, EngineError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, EngineError>> + Send + 'static,
    {
        let request = request(self.clone());
        self.client.run(deadline, request).await
    }

    /// Returns the claims' share in a lease, to which their keys may be attached from then on.
    pub(crate) async fn share_lease(&self, claims: &[Claim]) -> Result<Arc<LeaseUse>, EngineError> {
        let first = claims.first().ok_or_else(has_ended)?;
        let record = self.claims.find(first.token);
        let present = record.and_then(|record| record.leases.last().cloned());
        if let Some(lease) = present.filter(|it| !it.lease().is_lost() && it.fits(first.ttl)) {
            return Ok(lease);
        }
        let lease = self.leases.join(first.ttl, claims.len()).await?;
        for claim in claims {
            self.claims.add_lease(claim.token, lease.clone());
        }
        Ok(lease)
    }

    /// Writes what is attached to that lease, if the epoch is this connection's. Returns `None` if the lease
    /// has ended.
    pub(crate) async fn write(
        &self,
        lease: &LeaseUse,
        request: TxnRequest,
        lines: Option<Vec<Bytes>>,
    ) -> Result<Option<Written>, EngineError> {
        match self.write_in_epoch(request, lines).await {
            Err(failure) if failure.is_lost_lease() => {
                self.leases.lose(lease.lease());
                Ok(None)
            }
            reply => reply.map(Some).map_err(Failure::into_engine_error),
        }
    }

    /// Executes the transaction if the epoch is this connection's; together with others, if all lines are
    /// given that it may enter.
    pub(crate) async fn write_in_epoch(
        &self,
        request: TxnRequest,
        lines: Option<Vec<Bytes>>,
    ) -> Result<Written, Failure> {
        if lines.is_some() {
            match self.write_once(request.clone(), lines).await {
                // The connection has ended while it waited for its turn.
                Err(Failure::NotSent(_)) => {}
                written => return written,
            }
        }
        self.write_once(request, None).await
    }

    async fn write_once(
        &self,
        request: TxnRequest,
        lines: Option<Vec<Bytes>>,
    ) -> Result<Written, Failure> {
        let connection = self.client.connection().await;
        let connection = connection.map_err(|error| Failure::not_sent(error.to_string()))?;
        write_through(&connection, request, lines).await
    }

    /// Writes a key that ends with the present epoch, unless that has ended.
    pub(crate) async fn put_in_epoch(&self, key: Bytes, value: Bytes) -> Result<(), EngineError> {
        let connection = self.client.connection().await?;
        let put = PutRequest {
            key,
            value,
            lease: connection.epoch().map_or(0, |epoch| epoch.lease),
            ignore_lease: false,
        };
        let request = TxnRequest {
            success: vec![txn::put(put)],
            ..TxnRequest::default()
        };
        let written = write_through(&connection, request, None).await;
        written.map(drop).map_err(|failure| {
            if failure.is_lost_lease() {
                connection.end();
            }
            failure.into_engine_error()
        })
    }

    /// Reads a range as of now.
    pub(crate) async fn range(&self, read: &RangeRequest) -> Result<RangeResponse, EngineError> {
        let connection = self.client.connection().await?;
        let reply = connection
            .channel
            .call("/etcdserverpb.KV/Range", read)
            .await;
        reply.map_err(Failure::into_engine_error)
    }

    /// Executes a transaction that does no harm if it is executed late.
    pub(crate) async fn execute(&self, request: TxnRequest) -> Result<TxnResponse, EngineError> {
        let connection = self.client.connection().await?;
        let reply = connection.channel.txn(&request).await;
        reply.map_err(Failure::into_engine_error)
    }

    /// Waits for a reply until the deadline.
    pub(crate) async fn reply_by<T>(
        &self,
        deadline: Instant,
        reply: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, EngineError> {
        let reply = self.client.io.timeout_at(deadline, reply).await;
        reply.unwrap_or_else(|_| Err(EngineError::no_reply()))
    }

    /// Executes such a transaction together with others. It enters no line.
    pub(crate) async fn execute_in_batch(
        &self,
        request: TxnRequest,
    ) -> Result<TxnResponse, EngineError> {
        let connection = self.client.connection().await?;
        let reply = connection.txn_in_batch(request, Vec::new()).await;
        reply.map_err(Failure::into_engine_error)
    }

    /// Revokes the leases without claims, and the epoch's if none is left.
    pub(crate) async fn close(self: Arc<Self>) -> Result<(), EngineError> {
        if self.leases.revoke_unused().await
            && let Some(connection) = self.client.present()
        {
            // An epoch that is not ended ends by itself.
            let _ = connection.end_epoch().await;
        }
        Ok(())
    }
}

/// Executes the transaction if the epoch is that connection's.
async fn write_through(
    connection: &Connection,
    mut request: TxnRequest,
    lines: Option<Vec<Bytes>>,
) -> Result<Written, Failure> {
    let epoch = connection.epoch();
    let epoch = epoch.ok_or_else(|| Failure::not_sent("there is no epoch"))?;
    epoch.guard(&mut request);
    let reply = match lines {
        Some(lines) => connection.txn_in_batch(request, lines).await?,
        None => connection.channel.txn(&request).await?,
    };
    let (succeeded, revision) = (reply.succeeded, reply.revision());
    let replies = reply.responses.into_iter();
    let mut replies: Vec<_> = replies.filter_map(|op| op.response).collect();
    if !succeeded && !epoch.lasts_by(replies.pop()) {
        connection.end();
        return Err(Failure::not_sent("the epoch of the connection has ended"));
    }
    Ok(Written {
        succeeded,
        revision,
        replies,
    })
}
