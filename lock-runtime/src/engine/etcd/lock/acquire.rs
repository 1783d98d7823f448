//! Acquiring locks that are free, with one transaction for all locks of a call.

use crate::engine::background_release::{AwaitedAcquire, ReleaseSupervisor};
use crate::engine::common::line::Line;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::etcd::EtcdEngine;
use crate::engine::etcd::lock::core::{Core, MAX_ROUNDS, has_ended, too_busy};
use crate::engine::etcd::lock::record::Record;
use crate::engine::etcd::wire::messages::{RequestOp, TxnRequest};
use crate::engine::etcd::wire::txn;
use crate::engine::request::{Acquired, Attempt, Claim};
use crate::engine::token::Draw;
use prost::bytes::Bytes;
use std::sync::Arc;
use tokio::time::Instant;

impl EtcdEngine {
    pub(crate) async fn acquire(
        &self,
        attempt: &Attempt,
        supervisor: &Arc<dyn ReleaseSupervisor>,
        deadline: Instant,
    ) -> Result<Option<Acquired>, EngineError> {
        let token = attempt.token(Draw::now());
        let claims: Vec<Claim> = attempt.claims(token).collect();
        for claim in &claims {
            self.core.claims.enter(claim);
        }
        let awaited = AwaitedAcquire::new(attempt, token, supervisor);
        let acquired = self.core.run(deadline, |core| core.acquire(claims)).await;
        awaited.replied(acquired)
    }
}

impl Core {
    /// Enters the lines of the first claims, up to one that would have to wait. Returns their number.
    pub(crate) async fn acquire(self: Arc<Self>, claims: Vec<Claim>) -> Result<usize, EngineError> {
        let mut turns = Vec::with_capacity(claims.len());
        for claim in &claims {
            let record = self.claims.find(claim.token).ok_or_else(has_ended)?;
            turns.push(record.turn.lock_owned().await);
        }
        self.open(&claims)?;
        let since = self.clock.now();
        let acquired = self.enter_all(&claims).await;
        let count = match &acquired {
            Ok(count) => *count,
            Err(error) if error.kind == EngineErrorKind::Indeterminate => return acquired,
            Err(_) => 0,
        };
        let (held, rest) = claims.split_at(count);
        for claim in held {
            self.claims.hold(claim.token, since, claim.ttl);
        }
        for claim in rest {
            // The supervisor ends it if the caller has left.
            self.claims.forget_unless_ending(claim.token);
        }
        acquired
    }

    /// Enters the lines in one transaction, again for fewer claims while one of them has no room.
    async fn enter_all(&self, claims: &[Claim]) -> Result<usize, EngineError> {
        let (mut count, mut seen) = (claims.len(), None);
        for round in 0..MAX_ROUNDS {
            let claims = &claims[..count];
            let lease = self.share_lease(claims).await?;
            let records = self.open(claims)?;
            let lines = claims.iter().map(|claim| self.keys.line(&claim.name));
            let lines: Vec<_> = lines.collect();
            let puts = claims.iter().zip(&records);
            let puts = puts.map(|(claim, record)| record.put(claim.token, lease.lease().id));
            let request = entry(&lines, puts.collect(), seen);
            // Whether a lock has room is decided by what is read alone.
            let first = || lines.iter().map(|(first, _)| first.clone()).collect();
            let together = (round == 0).then(first);
            let Some(written) = self.write(&lease, request, together).await? else {
                continue;
            };
            if written.succeeded {
                // A lease that was tried before has ended.
                if records.iter().any(|record| record.leases.len() > 1) {
                    for claim in claims {
                        self.claims.set_lease(claim, &lease);
                    }
                }
                return Ok(count);
            }
            let revision = written.revision;
            let lines = claims.iter().zip(written.ranges().map(Line::new));
            let free = lines.take_while(|(claim, line)| line.has_room_for(claim.token.limit()));
            let free: Vec<_> = free.collect();
            count = free.len();
            if count == 0 {
                return Ok(0);
            }
            if revision > 0 {
                for (claim, line) in &free {
                    self.claims.move_on(claim, line);
                }
                seen = Some(revision);
            }
        }
        Err(too_busy())
    }

    /// Returns the records of the claims, none of which ends.
    fn open(&self, claims: &[Claim]) -> Result<Vec<Record>, EngineError> {
        let open = |claim: &Claim| self.claims.find_open(claim.token).ok_or_else(has_ended);
        claims.iter().map(open).collect()
    }
}

/// Returns the transaction that writes keys into lines that are empty, or that have no newer key than those
/// that were read at the revision `seen`.
fn entry(lines: &[(Bytes, Bytes)], puts: Vec<RequestOp>, seen: Option<i64>) -> TxnRequest {
    // What was read without the claim's key, and has no new key since, is without it. A holder's renewal
    // writes to its key, and takes no room.
    let room = |line| match seen {
        None => txn::is_empty(line),
        Some(revision) => txn::has_no_newer(line, revision),
    };
    TxnRequest {
        compare: lines.iter().map(room).collect(),
        success: puts,
        failure: lines.iter().map(txn::range).collect(),
    }
}
