//! The epoch of a connection: the time in which its writes are carried out, until the process has another
//! connection.

use crate::engine::etcd::conn::channel::Channel;
use crate::engine::etcd::wire::error::Failure;
use crate::engine::etcd::wire::messages::{
    LeaseGrantRequest, LeaseGrantResponse, OpReply, PutRequest, TxnRequest,
};
use crate::engine::etcd::wire::txn;
use prost::bytes::Bytes;
use std::time::Duration;
use uuid::Uuid;

/// How long the epoch outlives a process that has died.
pub(crate) const EPOCH_TTL: Duration = Duration::from_secs(60);

pub(crate) struct Epoch {
    key: Bytes,
    value: Bytes,
    /// The lease of its key, which ends that time after the connection, unless the epoch is ended.
    pub(crate) lease: i64,
}

impl Epoch {
    /// Writes the epoch's key: from then on, the writes of earlier connections do nothing.
    pub(crate) async fn begin(channel: &Channel, key: Bytes) -> Result<Epoch, Failure> {
        let grant = LeaseGrantRequest {
            ttl: EPOCH_TTL.as_secs().cast_signed(),
        };
        let method = "/etcdserverpb.Lease/LeaseGrant";
        let lease: LeaseGrantResponse = channel.call(method, &grant).await?;
        let value = Bytes::from(Uuid::new_v4().simple().to_string());
        let put = PutRequest {
            key: key.clone(),
            value: value.clone(),
            lease: lease.id,
            ignore_lease: false,
        };
        let txn = TxnRequest {
            success: vec![txn::put(put)],
            ..TxnRequest::default()
        };
        channel.txn(&txn).await?;
        Ok(Epoch {
            key,
            value,
            lease: lease.id,
        })
    }

    /// Has a transaction fail after the epoch, and read the epoch's key last if it fails.
    pub(crate) fn guard(&self, request: &mut TxnRequest) {
        let (key, value) = (self.key.clone(), self.value.clone());
        request.compare.push(txn::has_value(key.clone(), value));
        request.failure.push(txn::get(key));
    }

    /// Returns `true` if the epoch lasts, by the last reply to a transaction that has failed.
    pub(crate) fn lasts_by(&self, reply: Option<OpReply>) -> bool {
        match reply {
            Some(OpReply::Range(range)) => range.kvs.iter().any(|kv| kv.value == self.value),
            _ => false,
        }
    }

    /// Keeps the epoch alive. Returns `false` if it has ended.
    pub(crate) async fn keep_alive(&self, channel: &Channel) -> bool {
        let kept = channel.keep_alive(self.lease).await;
        kept.map_or(true, |reply| reply.ttl > 0)
    }

    /// Ends the epoch: nothing can be written through its connection from then on.
    pub(crate) async fn end(&self, channel: &Channel) -> Result<(), Failure> {
        channel.revoke(self.lease).await
    }
}
