//! Renewing claims: a look whether they are still in line, and their leases kept alive.

use crate::engine::error::EngineError;
use crate::engine::etcd::core::Core;
use crate::engine::etcd::messages::{KeyValue, TxnRequest};
use crate::engine::etcd::record::{Record, value_of};
use crate::engine::etcd::server_lease::LeaseUse;
use crate::engine::etcd::txn;
use crate::engine::request::Claim;
use crate::util::join_all::join_all;
use std::sync::Arc;

/// The greatest number of keys that one transaction looks at: servers allow 128 operations.
const MAX_LOOKS: usize = 100;

impl Core {
    /// Returns for each claim whether it has been renewed, or why that is unknown.
    pub(super) async fn renew(
        self: Arc<Self>,
        claims: Vec<Claim>,
    ) -> Result<Vec<Result<bool, EngineError>>, EngineError> {
        let since = self.clock.now();
        let records: Vec<_> = claims
            .iter()
            .map(|claim| self.claims.find_open(claim.token))
            .collect();
        let moves = claims.iter().zip(&records);
        let moves = moves.map(|(claim, record)| self.move_if_needed(claim, record.as_ref()));
        let moved = join_all(moves).await;
        let chunks = claims.chunks(MAX_LOOKS).zip(records.chunks(MAX_LOOKS));
        let looks = chunks.map(|(claims, records)| self.look(claims, records));
        let looks = join_all(looks).await;
        let refreshed = join_all(claims.iter().map(|claim| self.refresh(claim))).await;
        let answers = looks.into_iter().flatten();
        let answers = answers.zip(moved.into_iter().zip(refreshed));
        let answers = claims
            .iter()
            .zip(answers)
            .map(|(claim, (found, (moved, refreshed)))| {
                if !found? {
                    return Ok(false);
                }
                moved?;
                refreshed?;
                Ok(self.claims.hold(claim.token, since, claim.ttl))
            });
        Ok(answers.collect())
    }

    /// Returns for each claim whether its key is there.
    async fn look(
        &self,
        claims: &[Claim],
        records: &[Option<Record>],
    ) -> Vec<Result<bool, EngineError>> {
        let known = records.iter().flatten();
        let looks = TxnRequest {
            success: known
                .map(|record| txn::get(record.slot.key.clone()))
                .collect(),
            ..TxnRequest::default()
        };
        let answer = match looks.success.is_empty() {
            true => Ok(Vec::new()),
            false => self
                .execute(looks)
                .await
                .map(|answer| answer.ranges().collect()),
        };
        let found = match answer {
            Ok(found) => found,
            Err(error) => return claims.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut found = found.into_iter();
        let is_there = |(claim, record): (&Claim, &Option<Record>)| {
            let keys: Vec<KeyValue> = match record {
                Some(_) => found.next().unwrap_or_default(),
                None => return Ok(false),
            };
            let value = value_of(claim.token);
            Ok(keys.iter().any(|kv| kv.value == value))
        };
        claims.iter().zip(records).map(is_there).collect()
    }

    /// Keeps the leases of a claim alive.
    async fn refresh(&self, claim: &Claim) -> Result<(), EngineError> {
        let record = self.claims.find_open(claim.token);
        let leases = record.map(|record| record.leases).unwrap_or_default();
        let refresh = |lease: Arc<LeaseUse>| async move {
            self.leases.refresh(lease.lease(), claim.ttl).await
        };
        let refreshed = join_all(leases.into_iter().map(refresh)).await;
        refreshed.into_iter().collect()
    }

    /// Attaches the claim's key to a lease of its ttl, if that is new.
    async fn move_if_needed(
        &self,
        claim: &Claim,
        record: Option<&Record>,
    ) -> Result<(), EngineError> {
        let Some(record) = record else {
            return Ok(());
        };
        if record.leases.iter().all(|lease| lease.fits(claim.ttl)) {
            return Ok(());
        }
        let _turn = record.turn.lock().await;
        let lease = self.leases.join(claim.ttl, 1).await?;
        // Until the answer is there it can be either.
        let mut leases = record.leases.clone();
        leases.push(lease.clone());
        self.claims.set_leases(claim.token, leases);
        let key = &record.slot.key;
        let request = TxnRequest {
            compare: vec![txn::has_value(key.clone(), value_of(claim.token))],
            success: vec![record.put(claim.token, lease.lease().id)],
            failure: Vec::new(),
        };
        let written = self.write(&lease, request, None).await?;
        if written.is_some_and(|written| written.succeeded) {
            self.claims.set_leases(claim.token, vec![lease]);
        }
        Ok(())
    }
}
