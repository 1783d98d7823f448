//! Renewing claims: their keys are attached to new leases.

use crate::engine::error::EngineError;
use crate::engine::etcd::EtcdEngine;
use crate::engine::etcd::conn::server_lease::LeaseUse;
use crate::engine::etcd::lock::core::{Core, has_ended, too_busy};
use crate::engine::etcd::lock::entry::value_of;
use crate::engine::etcd::lock::record::Record;
use crate::engine::etcd::wire::messages::{OpReply, RequestOp, TxnRequest};
use crate::engine::etcd::wire::txn;
use crate::engine::request::Claim;
use crate::engine::token::Token;
use crate::util::clock::Timestamp;
use crate::util::join_all::join_all;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The greatest number of keys in one transaction: servers allow 128 operations, and those of the parts
/// count, too.
const MAX_PARTS: usize = 60;

/// The greatest number of bytes of the keys in one transaction, far below the size that servers accept.
const MAX_BYTES: usize = 256 << 10;

/// A claim whose key is attached to a new lease, or only looked at.
pub(crate) struct Move {
    claim: Claim,
    record: Record,
    lease: Option<Arc<LeaseUse>>,
}

impl Move {
    pub(crate) fn new(claim: &Claim, record: Record, lease: Option<Arc<LeaseUse>>) -> Move {
        Move {
            claim: claim.clone(),
            record,
            lease,
        }
    }

    fn request(&self) -> RequestOp {
        let (key, token) = (self.record.key.bytes.clone(), self.claim.token);
        match &self.lease {
            None => txn::get(key),
            Some(lease) => txn::within(TxnRequest {
                compare: vec![txn::has_value(key, value_of(token))],
                success: vec![self.record.put(token, lease.lease().id)],
                failure: Vec::new(),
            }),
        }
    }

    /// Returns `true` if the claim's key was there.
    fn was_there(&self, reply: &OpReply) -> bool {
        let value = value_of(self.claim.token);
        match reply {
            OpReply::Range(range) => range.kvs.iter().any(|kv| kv.value == value),
            OpReply::Txn(part) => part.succeeded,
            OpReply::Put(_) | OpReply::Delete(_) => false,
        }
    }
}

type Renewed = Result<bool, EngineError>;

/// An open claim that is to be renewed.
type Open<'a> = (&'a Claim, Record);

impl EtcdEngine {
    pub(crate) async fn renew(
        &self,
        claims: &[Claim],
        deadline: Instant,
    ) -> Result<Vec<Result<bool, EngineError>>, EngineError> {
        self.core
            .run(deadline, |core| core.renew(claims.to_vec()))
            .await
    }
}

impl Core {
    /// Returns for each claim whether it has been renewed, or why that is unknown.
    pub(crate) async fn renew(
        self: Arc<Self>,
        claims: Vec<Claim>,
    ) -> Result<Vec<Renewed>, EngineError> {
        let since = self.clock.now();
        let open = claims.iter().filter_map(|claim| {
            let record = self.claims.find_open(claim.token)?;
            Some((claim, record))
        });
        let mut open: Vec<Open<'_>> = open.collect();
        let unknown = open
            .iter()
            .map(|(claim, _)| (claim.token, Err(has_ended())));
        let mut replies: HashMap<Token, Renewed> = unknown.collect();
        // Renewals of the same claims wait for one another in this order, and those of the same key for none.
        open.sort_by(|(_, one), (_, other)| one.key.bytes.cmp(&other.key.bytes));
        open.dedup_by(|(_, one), (_, other)| one.key.bytes == other.key.bytes);
        let renewals = batches(open).into_iter().map(async |batch| {
            let held = self.renew_together(&batch, since).await;
            (batch, held)
        });
        for (batch, held) in join_all(renewals).await {
            for (claim, _) in batch {
                let renewed = held.as_ref().map(|held| held.contains(&claim.token));
                replies.insert(claim.token, renewed.map_err(EngineError::clone));
            }
        }
        let reply_to = |claim: &Claim| replies.remove(&claim.token).unwrap_or(Ok(false));
        Ok(claims.iter().map(reply_to).collect())
    }

    /// Renews claims in one transaction, when it is the turn of each. Returns those that hold their locks.
    async fn renew_together(
        &self,
        claims: &[Open<'_>],
        since: Timestamp,
    ) -> Result<HashSet<Token>, EngineError> {
        let mut turns = Vec::with_capacity(claims.len());
        for (_, record) in claims {
            turns.push(record.turn.lock().await);
        }
        let mut moves = Vec::with_capacity(claims.len());
        for (claim, _) in claims {
            // Before it was its turn, it may have ended, or have been moved.
            moves.extend(self.move_for(claim, since).await?);
        }
        let mut held = self.attach(&moves).await?;
        for Move { claim, .. } in &moves {
            if held.contains(&claim.token) && !self.claims.hold(claim.token, since, claim.ttl) {
                held.remove(&claim.token);
            }
        }
        Ok(held)
    }

    /// Returns what renews the claim; `None` if it has ended.
    async fn move_for(&self, claim: &Claim, since: Timestamp) -> Result<Option<Move>, EngineError> {
        let Some(record) = self.claims.find_open(claim.token) else {
            return Ok(None);
        };
        let lease = match record.is_proven(since, claim.ttl) {
            true => None,
            // An older one could end before what is believed already.
            false => {
                let leases = &self.leases;
                Some(
                    leases
                        .join_since(claim.ttl, 1, since, Duration::ZERO)
                        .await?,
                )
            }
        };
        Ok(Some(Move::new(claim, record, lease)))
    }

    /// Attaches keys to other leases, or looks at them, in the claims' turns. Returns the claims whose keys
    /// are there.
    pub(crate) async fn attach(&self, moves: &[Move]) -> Result<HashSet<Token>, EngineError> {
        let leases = moves.iter().filter_map(|it| it.lease.as_ref());
        for it in moves {
            if let Some(lease) = &it.lease {
                // Until the reply comes, the key may be on either.
                self.claims.add_lease(it.claim.token, lease.clone());
            }
        }
        let request = TxnRequest {
            success: moves.iter().map(Move::request).collect(),
            ..TxnRequest::default()
        };
        let written = self.write_in_epoch(request, None).await;
        let written = written.map_err(|failure| {
            if failure.is_lost_lease() {
                leases.for_each(|lease| self.leases.lose(lease.lease()));
            }
            failure.into_engine_error()
        })?;
        if written.replies.len() != moves.len() {
            return Err(too_busy());
        }
        let mut there = HashSet::new();
        for (it, reply) in moves.iter().zip(&written.replies) {
            if it.was_there(reply) {
                there.insert(it.claim.token);
                if let Some(lease) = &it.lease {
                    self.claims.set_lease(&it.claim, lease);
                }
            }
        }
        Ok(there)
    }
}

/// Divides renewals into those that fit into one transaction each.
fn batches(renewals: Vec<Open<'_>>) -> Vec<Vec<Open<'_>>> {
    let (mut batches, mut bytes) = (Vec::<Vec<_>>::new(), 0);
    for renewal in renewals {
        let size = renewal.1.key.bytes.len();
        bytes += size;
        match batches.last_mut() {
            Some(batch) if batch.len() < MAX_PARTS && bytes <= MAX_BYTES => batch.push(renewal),
            _ => {
                bytes = size;
                batches.push(vec![renewal]);
            }
        }
    }
    batches
}
