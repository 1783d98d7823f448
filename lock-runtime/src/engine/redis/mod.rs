//! Locks on Redis: on one server, on the master that Sentinels name, or on the nodes of a cluster.
//!
//! A lock is a plain string: `<prefix><key>` stores its holder's token and expires after the ttl, so it
//! interoperates with every client that uses `SET NX PX` and compare-and-delete.

pub(crate) mod address;
pub(crate) mod asks;
pub(crate) mod check;
pub(crate) mod conn;
pub(crate) mod hash_slot;
pub(crate) mod keys;
pub(crate) mod lock;
pub(crate) mod member;
pub(crate) mod open;
pub(crate) mod open_quorum;
pub(crate) mod operations;
pub(crate) mod ping;
pub(crate) mod reports;
pub(crate) mod scripts;
pub(crate) mod take;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod topology;
pub(crate) mod view;
pub(crate) mod wire;

use crate::engine::background_release::{BackgroundRelease, ReleaseSupervisor};
use crate::engine::error::EngineError;
use crate::engine::inspection::Inspection;
use crate::engine::redis::check::Inspector;
use crate::engine::redis::lock::locks::Locks;
use crate::engine::request::{Acquired, Attempt, Claim, EngineFuture, EnqueueReply, ServerTime};
use crate::engine::token::Token;
use crate::engine::traits::{Engine, Shard};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(crate) struct RedisEngine {
    pub(crate) locks: Locks,
    pub(crate) inspector: Inspector,
}

impl Engine for RedisEngine {
    fn acquire<'a>(
        &'a self,
        attempt: &'a Attempt,
        supervisor: &'a Arc<dyn ReleaseSupervisor>,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Acquired>> {
        Box::pin(self.locks.acquire(attempt, supervisor, deadline))
    }

    fn in_one_request(&self, name: &str, other: &str) -> bool {
        self.shard_of(name) == self.shard_of(other)
    }

    fn enqueue<'a>(
        &'a self,
        claim: &'a Claim,
        valid_until: Option<ServerTime>,
        deadline: Instant,
    ) -> EngineFuture<'a, EnqueueReply> {
        Box::pin(self.locks.enqueue(claim, valid_until, deadline))
    }

    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        in_flight: bool,
        deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        Box::pin(self.locks.cancel(claim, in_flight, deadline))
    }

    fn on_missed_grant(&self) {
        self.locks.subscription.resubscribe();
    }

    fn hears_recalls(&self, _: &str) -> bool {
        self.locks.subscription.hears_recalls()
    }

    fn release<'a>(&'a self, claim: &'a Claim, deadline: Instant) -> EngineFuture<'a, bool> {
        Box::pin(self.locks.release(claim, deadline))
    }

    fn release_in_background(&self, release: BackgroundRelease) -> Result<(), BackgroundRelease> {
        self.locks.router.release_in_background(release)
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<Result<bool, EngineError>>> {
        Box::pin(async move { Ok(self.locks.renew(claims, deadline).await) })
    }

    fn shard_of(&self, name: &str) -> Shard {
        self.locks.router.shard_of(name)
    }

    fn node_of(&self, name: &str) -> Option<Arc<str>> {
        self.locks.router.node_of(name)
    }

    fn fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<u64>> {
        Box::pin(self.locks.fencing_token(claim, deadline))
    }

    fn raise_fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        token: u64,
        deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        Box::pin(self.locks.raise_fencing_token(claim, token, deadline))
    }

    fn downgrade<'a>(
        &'a self,
        claim: &'a Claim,
        to: Token,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Duration>> {
        Box::pin(self.locks.downgrade(claim, to, deadline))
    }

    fn inspect(
        &self,
        ttl: Duration,
        replicas: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        Box::pin(self.inspector.inspect(&self.locks, ttl, replicas))
    }
}
