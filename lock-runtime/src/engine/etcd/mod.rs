//! Locks in etcd, in the layout of etcd's own locks.
//!
//! Each claim is a key under the lock's name, in the order of creation. The first of them hold the lock, as many as
//! their limits allow; the others follow the line by a watch.

pub(crate) mod address;
mod asks;
pub(crate) mod check;
pub(crate) mod conn;
pub(crate) mod keys;
pub(crate) mod lock;
pub(crate) mod open;
pub(crate) mod operations;
pub(crate) mod own_report;
mod pages;
mod ping;
mod reports;
mod take;
#[cfg(test)]
mod tests;
mod view;
pub(crate) mod wire;

use crate::engine::background_release::{AwaitedAcquire, ReleaseSupervisor};
use crate::engine::error::EngineError;
use crate::engine::etcd::check::inspect;
use crate::engine::etcd::lock::core::Core;
use crate::engine::inspection::Inspection;
use crate::engine::lease::Lease;
use crate::engine::request::{Acquired, Attempt, Claim, EngineFuture, EnqueueReply, ServerTime};
use crate::engine::token::{Draw, Token};
use crate::engine::traits::Engine;
use crate::error::LockError;
use crate::options::LockOptions;
use crate::util::clock::Timestamp;
use crate::util::time::deadline_in;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The longest key in bytes, so that requests stay far below the size that servers accept.
const MAX_KEY: usize = 64 << 10;

/// The longest name in bytes of a lock that shares its request with others, for the same reason.
const MAX_SHARED: usize = 2 << 10;

pub(crate) struct EtcdEngine {
    core: Arc<Core>,
}

impl Engine for EtcdEngine {
    fn acquire<'a>(
        &'a self,
        attempt: &'a Attempt,
        supervisor: &'a Arc<dyn ReleaseSupervisor>,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Acquired>> {
        Box::pin(async move {
            let token = attempt.token(Draw::now());
            let claims: Vec<Claim> = attempt.claims(token).collect();
            for claim in &claims {
                self.core.claims.enter(claim);
            }
            let awaited = AwaitedAcquire::new(attempt, token, supervisor);
            let acquired = self.core.run(deadline, |core| core.acquire(claims)).await;
            awaited.replied(acquired)
        })
    }

    fn in_one_request(&self, name: &str, other: &str) -> bool {
        name.len().max(other.len()) <= MAX_SHARED
    }

    fn enqueue<'a>(
        &'a self,
        claim: &'a Claim,
        _: Option<ServerTime>,
        deadline: Instant,
    ) -> EngineFuture<'a, EnqueueReply> {
        Box::pin(async move {
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
        })
    }

    // The requests of a claim are sent one after the other, so none can be late.
    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        _: bool,
        deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        Box::pin(self.core.release(claim.token, deadline))
    }

    fn release<'a>(&'a self, claim: &'a Claim, deadline: Instant) -> EngineFuture<'a, bool> {
        Box::pin(self.core.release(claim.token, deadline))
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<Result<bool, EngineError>>> {
        Box::pin(self.core.run(deadline, |core| core.renew(claims.to_vec())))
    }

    fn fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<u64>> {
        Box::pin(
            self.core
                .run(deadline, |core| core.fencing_token(claim.clone())),
        )
    }

    fn downgrade<'a>(
        &'a self,
        claim: &'a Claim,
        to: Token,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Duration>> {
        Box::pin(self.core.run(deadline, move |core| {
            core.claims.add_token(claim.token, to);
            core.downgrade(claim.clone(), to)
        }))
    }

    /// The claim's key ends with a lease of the server, which others share.
    fn lease(&self, token: Token, sent: Timestamp, duration: Duration) -> Lease {
        let now = self.core.clock.now();
        let record = self.core.claims.find(token);
        let on_server = record.map_or(Duration::ZERO, |record| record.remaining(now));
        let asked = Lease::from_request(sent, duration).remaining(now);
        Lease::exactly(now, asked.min(on_server))
    }

    fn validate(&self, key: &str, options: &LockOptions) -> Result<(), LockError> {
        if key.len() > MAX_KEY {
            return Err(LockError::InvalidKey {
                key: key.chars().take(64).collect::<String>().into(),
                reason: "it is longer than the 64 KiB that are sensible in etcd; shorten it",
            });
        }
        if options.replicas > 0 {
            return Err(LockError::Unsupported {
                operation: "replicas",
                reason: "etcd replicates every write to a majority of its members; leave `replicas` at 0",
            });
        }
        Ok(())
    }

    fn inspect(
        &self,
        _ttl: Duration,
        _replicas: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        Box::pin(inspect(&self.core))
    }

    fn drain(&self) -> EngineFuture<'_, ()> {
        let deadline = deadline_in(self.core.client.connector.timeouts.command);
        Box::pin(self.core.run(deadline, Core::close))
    }
}
