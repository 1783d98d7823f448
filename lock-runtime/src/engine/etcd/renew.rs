//! Renewing claims: their keys are attached to new leases.

use crate::engine::error::EngineError;
use crate::engine::etcd::core::{Core, has_ended, too_busy};
use crate::engine::etcd::entry::value_of;
use crate::engine::etcd::messages::{RequestOp, Response, TxnRequest};
use crate::engine::etcd::record::Record;
use crate::engine::etcd::server_lease::LeaseUse;
use crate::engine::etcd::txn;
use crate::engine::request::Claim;
use crate::util::clock::Timestamp;
use crate::util::join_all::join_all;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// The greatest number of keys in one transaction: servers allow 128 operations, and those of the parts count, too.
const MAX_PARTS: usize = 60;

/// The greatest number of bytes of the keys in one transaction, far below the size that servers accept.
const MAX_BYTES: usize = 256 << 10;

/// A claim whose key is attached to a new lease, or only looked at.
pub(super) struct Move {
    claim: Claim,
    record: Record,
    lease: Option<Arc<LeaseUse>>,
}

impl Move {
    pub(super) fn new(claim: &Claim, record: Record, lease: Option<Arc<LeaseUse>>) -> Move {
        Move {
            claim: claim.clone(),
            record,
            lease,
        }
    }

    fn request(&self) -> RequestOp {
        let (key, token) = (self.record.slot.key.clone(), self.claim.token);
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
    fn was_there(&self, answer: &Response) -> bool {
        let value = value_of(self.claim.token);
        match answer {
            Response::Range(range) => range.kvs.iter().any(|kv| kv.value == value),
            Response::Txn(part) => part.succeeded,
            Response::Put(_) | Response::Delete(_) => false,
        }
    }
}

type Renewed = Result<bool, EngineError>;

impl Core {
    /// Returns for each claim whether it has been renewed, or why that is unknown.
    pub(super) async fn renew(
        self: Arc<Self>,
        claims: Vec<Claim>,
    ) -> Result<Vec<Renewed>, EngineError> {
        let since = self.clock.now();
        let mut answers: Vec<Renewed> = claims.iter().map(|_| Ok(false)).collect();
        let mut open = Vec::with_capacity(claims.len());
        for (at, claim) in claims.iter().enumerate() {
            if let Some(record) = self.claims.find_open(claim.token) {
                answers[at] = Err(has_ended());
                open.push((at, record));
            }
        }
        // Renewals of the same claims wait for one another in this order, and those of the same key for none.
        open.sort_by(|(_, one), (_, other)| one.slot.key.cmp(&other.slot.key));
        open.dedup_by(|(_, one), (_, other)| one.slot.key == other.slot.key);
        let batches = batches(open);
        let renewals = batches.iter().map(|batch| {
            let claims = batch.iter().map(|(at, record)| (&claims[*at], record));
            self.renew_together(claims.collect(), since)
        });
        for (batch, renewed) in batches.iter().zip(join_all(renewals).await) {
            for (nth, (at, _)) in batch.iter().enumerate() {
                answers[*at] = match &renewed {
                    Ok(held) => Ok(held.get(nth) == Some(&true)),
                    Err(error) => Err(error.clone()),
                };
            }
        }
        Ok(answers)
    }

    /// Renews claims in one transaction, when it is the turn of each. Returns for each whether it holds its lock.
    async fn renew_together(
        &self,
        claims: Vec<(&Claim, &Record)>,
        since: Timestamp,
    ) -> Result<Vec<bool>, EngineError> {
        let mut turns = Vec::with_capacity(claims.len());
        for (_, record) in &claims {
            turns.push(record.turn.lock().await);
        }
        let mut moves = Vec::with_capacity(claims.len());
        for (claim, _) in &claims {
            // Before it was its turn, it may have ended, or have been moved.
            moves.extend(self.move_for(claim, since).await?);
        }
        let there = self.attach(&moves).await?;
        let there = moves.iter().zip(there).filter(|(_, was_there)| *was_there);
        let there: HashSet<_> = there.map(|(it, _)| it.claim.token).collect();
        let hold = |claim: &Claim| self.claims.hold(claim.token, since, claim.ttl);
        let held = claims.iter();
        let held = held.map(|(claim, _)| there.contains(&claim.token) && hold(claim));
        Ok(held.collect())
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

    /// Attaches keys to other leases, or looks at them, in the claims' turns. Returns for each whether it is there.
    pub(super) async fn attach(&self, moves: &[Move]) -> Result<Vec<bool>, EngineError> {
        let leases = moves.iter().filter_map(|it| it.lease.as_ref());
        for it in moves {
            if let Some(lease) = &it.lease {
                // Until the answer is there it can be either.
                self.claims.add_lease(it.claim.token, lease.clone());
            }
        }
        let request = TxnRequest {
            success: moves.iter().map(Move::request).collect(),
            ..TxnRequest::default()
        };
        let written = self.write_in_session(request, None).await;
        let written = written.map_err(|failure| {
            if failure.is_lost_lease() {
                leases.for_each(|lease| self.leases.lose(lease.lease()));
            }
            failure.into_engine_error()
        })?;
        if written.answers.len() != moves.len() {
            return Err(too_busy());
        }
        let there = moves.iter().zip(&written.answers);
        let there = there.map(|(it, answer)| {
            let was_there = it.was_there(answer);
            if let Some(lease) = it.lease.as_ref().filter(|_| was_there) {
                self.claims.set_lease(&it.claim, lease);
            }
            was_there
        });
        Ok(there.collect())
    }
}

/// Divides renewals into those that fit into one transaction each.
fn batches(renewals: Vec<(usize, Record)>) -> Vec<Vec<(usize, Record)>> {
    let (mut batches, mut bytes) = (Vec::<Vec<_>>::new(), 0);
    for renewal in renewals {
        bytes += renewal.1.slot.key.len();
        match batches.last_mut() {
            Some(batch) if batch.len() < MAX_PARTS && bytes <= MAX_BYTES => batch.push(renewal),
            _ => {
                bytes = renewal.1.slot.key.len();
                batches.push(vec![renewal]);
            }
        }
    }
    batches
}
