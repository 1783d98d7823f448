//! Locks in etcd, in the layout of etcd's own locks.
//!
//! Each claim is a key under the lock's name, in the order of creation. The first of them hold the lock, as many as
//! their limits allow; the others follow the line by a watch.

pub(crate) mod open;

mod check;
mod claims;
mod client;
mod connection;
mod connector;
mod core;
mod endpoints;
mod failure;
mod grpc;
mod keys;
mod leases;
mod line;
mod messages;
mod slots;
mod txn;

use crate::engine::background_release::{ReleaseSupervisor, UnansweredAcquire};
use crate::engine::error::EngineError;
use crate::engine::etcd::check::inspect;
use crate::engine::etcd::core::{Core, ended};
use crate::engine::inspection::Inspection;
use crate::engine::lease::Lease;
use crate::engine::request::{Acquired, Attempt, Claim, EngineFuture, EnqueueReply, ServerTime};
use crate::engine::token::Token;
use crate::engine::traits::Engine;
use crate::error::LockError;
use crate::options::LockOptions;
use crate::util::clock::Timestamp;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The longest key in bytes, so that requests stay far below the size that servers accept.
const MAX_KEY: usize = 64 << 10;

pub(crate) struct EtcdEngine {
    core: Arc<Core>,
}

impl EtcdEngine {
    /// Ends a claim, and waits for that until the deadline. Returns `true` if it was in line.
    async fn end(&self, token: Token, deadline: Instant) -> Result<bool, EngineError> {
        match self.core.end(token) {
            Some(ending) => ended(ending, self.core.client.io, deadline).await,
            None => Ok(false),
        }
    }
}

impl Engine for EtcdEngine {
    fn acquire<'a>(
        &'a self,
        attempt: &'a Attempt,
        supervisor: &'a Arc<dyn ReleaseSupervisor>,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Acquired>> {
        Box::pin(async move {
            let token = Token::random().with_limit(attempt.limit);
            let claim = attempt.claim(token);
            self.core.claims.enter(&claim);
            let unanswered = UnansweredAcquire::new(attempt, token, supervisor);
            let core = self.core.clone();
            let acquired = async move { core.acquire(&claim).await };
            let acquired = self.core.client.run(deadline, acquired).await;
            unanswered.answered(acquired.map(usize::from))
        })
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
            let (core, claim) = (self.core.clone(), claim.clone());
            let enqueued = async move { core.enqueue(&claim).await };
            self.core.client.run(deadline, enqueued).await
        })
    }

    // The requests of a claim are sent one after the other, so none can be late.
    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        _: bool,
        deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        Box::pin(self.end(claim.token, deadline))
    }

    fn release<'a>(&'a self, claim: &'a Claim, deadline: Instant) -> EngineFuture<'a, bool> {
        Box::pin(self.end(claim.token, deadline))
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<Result<bool, EngineError>>> {
        Box::pin(async move {
            let (core, claims) = (self.core.clone(), claims.to_vec());
            let renewed = async move { Ok(core.renew(&claims).await) };
            self.core.client.run(deadline, renewed).await
        })
    }

    fn fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<u64>> {
        Box::pin(async move {
            let (core, claim) = (self.core.clone(), claim.clone());
            let drawn = async move { core.fencing_token(&claim).await };
            self.core.client.run(deadline, drawn).await
        })
    }

    fn downgrade<'a>(
        &'a self,
        claim: &'a Claim,
        to: Token,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Duration>> {
        Box::pin(async move {
            self.core.claims.add_token(claim.token, to);
            let (core, ttl, claim) = (self.core.clone(), claim.ttl, claim.clone());
            let downgraded = async move { core.downgrade(&claim, to).await };
            let downgraded = self.core.client.run(deadline, downgraded).await?;
            if !downgraded {
                self.core.claims.forget_unless_ending(to);
            }
            Ok(downgraded.then_some(ttl))
        })
    }

    /// The claim's key ends with a lease of the server, which others share.
    fn lease(&self, token: Token, sent: Timestamp, duration: Duration) -> Lease {
        let now = self.core.clock.now();
        let record = self.core.claims.find(token);
        let on_server = record.map_or(Duration::ZERO, |record| record.remaining(now));
        let asked = Lease::from_request(sent, duration).remaining(now);
        Lease::without_margin(now, asked.min(on_server))
    }

    fn validate(&self, key: &str, options: &LockOptions) -> Result<(), LockError> {
        if key.len() > MAX_KEY {
            return Err(LockError::InvalidKey {
                key: key.chars().take(64).collect::<String>().into(),
                reason: "it is longer than the 64 KiB that are sensible in etcd; shorten it",
            });
        }
        if options.replicas > 0 {
            return Err(LockError::InvalidOption {
                option: "replicas",
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
        Box::pin(async move {
            let core = self.core.clone();
            let timeout = core.client.connector.timeouts.command;
            let deadline = crate::util::time::deadline_in(timeout);
            let revoked = async move {
                if core.leases.revoke_unused().await
                    && let Some(connection) = core.client.present()
                {
                    let _ = connection.close_session().await;
                }
                Ok(())
            };
            self.core.client.run(deadline, revoked).await
        })
    }
}
