//! Locks in ZooKeeper.
//!
//! A lock is a node, and its claims are ephemeral children in the order of their numbers: the layout of Curator's
//! `InterProcessMutex`, which therefore queues in the same line. A claim's limit is in the name of its node, so the
//! list of the children tells who holds the lock, and every client finds the same.

pub(crate) mod acquire;
pub(crate) mod address;
pub(crate) mod claims;
pub(crate) mod containers;
pub(crate) mod enter;
pub(crate) mod entry;
pub(crate) mod held;
pub(crate) mod inspect;
pub(crate) mod look;
pub(crate) mod net;
pub(crate) mod node;
pub(crate) mod open;
pub(crate) mod paths;
pub(crate) mod prove;
pub(crate) mod sessions;
pub(crate) mod tries;

use crate::engine::background_release::{BackgroundRelease, ReleaseSupervisor};
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::inspection::Inspection;
use crate::engine::lease::Lease;
use crate::engine::request::{Acquired, Attempt, Claim, EngineFuture, EnqueueReply, ServerTime};
use crate::engine::token::Token;
use crate::engine::traits::Engine;
use crate::engine::zookeeper::claims::Claims;
use crate::engine::zookeeper::net::failure::Failure;
use crate::error::LockError;
use crate::options::LockOptions;
use crate::util::clock::{Clock, Timestamp};
use crate::util::time::deadline_in;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The longest key, in bytes. ZooKeeper keeps all paths in memory.
const MAX_KEY: usize = 8192;

/// How long a task may be late for its own deadline, and still tell more than that it has passed.
const GRACE: Duration = Duration::from_millis(20);

pub(crate) struct ZooKeeperEngine {
    claims: Arc<Claims>,
    address: Arc<str>,
    clock: Clock,
    started: Timestamp,
    command_timeout: Duration,
}

impl ZooKeeperEngine {
    /// Runs work on the I/O thread to its end, and returns its result if that comes by the deadline.
    async fn perform<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, EngineError> {
        let done = self.claims.io.run_to_end(deadline + GRACE, work).await;
        done.map_or_else(
            || Err(EngineError::no_reply()),
            |done| done.map_err(Failure::into_error),
        )
    }

    /// Gives up the claim, whatever it has. Returns `true` if it had a node.
    async fn leave(&self, claim: &Claim, deadline: Instant) -> Result<bool, EngineError> {
        let Some(node) = self.claims.nodes.get(claim.token) else {
            return Ok(false);
        };
        self.claims.leave(&node);
        let gone = node.ending.finished(self.claims.io, deadline).await;
        gone.map_err(|error| match error.kind {
            // The session knows why there is no reply.
            EngineErrorKind::Indeterminate => node.session.unanswered().into_error(),
            _ => error,
        })
    }
}

impl Engine for ZooKeeperEngine {
    fn acquire<'a>(
        &'a self,
        attempt: &'a Attempt,
        supervisor: &'a Arc<dyn ReleaseSupervisor>,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Acquired>> {
        Box::pin(self.acquire(attempt, supervisor, deadline))
    }

    // A session carries requests out in order, so none can be late.
    fn enqueue<'a>(
        &'a self,
        claim: &'a Claim,
        _: Option<ServerTime>,
        deadline: Instant,
    ) -> EngineFuture<'a, EnqueueReply> {
        Box::pin(self.enqueue(claim, deadline))
    }

    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        _: bool,
        deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        Box::pin(self.leave(claim, deadline))
    }

    fn release<'a>(&'a self, claim: &'a Claim, deadline: Instant) -> EngineFuture<'a, bool> {
        Box::pin(self.leave(claim, deadline))
    }

    fn release_in_background(&self, release: BackgroundRelease) -> Result<(), BackgroundRelease> {
        let node = self.claims.nodes.get(release.claim.token);
        if let Some(node) = &node {
            self.claims.leave(node);
        }
        let (io, limit) = (self.claims.io, self.command_timeout);
        io.spawn_detached(async move {
            let Some(node) = node else {
                return release.confirm(false);
            };
            match node.ending.finished(io, deadline_in(limit)).await {
                Ok(was_owner) => release.confirm(was_owner),
                Err(_) => release.hand_over(true),
            }
        });
        Ok(())
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<Result<bool, EngineError>>> {
        Box::pin(self.renew(claims, deadline))
    }

    fn fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<u64>> {
        Box::pin(self.fencing_token(claim, deadline))
    }

    fn downgrade<'a>(
        &'a self,
        claim: &'a Claim,
        to: Token,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Duration>> {
        Box::pin(self.downgrade(claim, to, deadline))
    }

    fn lease(&self, token: Token, sent: Timestamp, duration: Duration) -> Lease {
        let now = self.clock.now();
        let node = self.claims.nodes.get(token);
        let session = node.and_then(|node| node.session.lease());
        let session = session.unwrap_or_else(|| Lease::exactly(now, Duration::ZERO));
        let own = Lease::from_request(sent, duration);
        match session.remaining(now) < own.remaining(now) {
            true => session,
            false => own,
        }
    }

    fn validate(&self, key: &str, options: &LockOptions) -> Result<(), LockError> {
        if key.len() > MAX_KEY {
            return Err(LockError::InvalidKey {
                key: key.chars().take(64).collect::<String>().into(),
                reason: "it is longer than 8,192 bytes, and ZooKeeper keeps all keys in memory; use a hash of it",
            });
        }
        if options.ttl > self.claims.sessions.limits().longest_ttl() {
            return Err(LockError::InvalidOption {
                option: "ttl",
                reason: "it is longer than the ZooKeeper ensemble lets a session live without a sign of \
                         life; lower it, or raise `maxSessionTimeout` on all servers",
            });
        }
        if options.replicas > 0 {
            return Err(LockError::Unsupported {
                operation: "replicas",
                reason: "ZooKeeper has a majority of its servers store every lock; set it to 0",
            });
        }
        Ok(())
    }

    fn inspect(
        &self,
        ttl: Duration,
        _: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        Box::pin(self.inspect_servers(ttl))
    }

    fn drain(&self) -> EngineFuture<'_, ()> {
        let (claims, limit) = (self.claims.clone(), deadline_in(self.command_timeout));
        let drained = self.perform(limit, async move {
            claims.leave_reserved();
            let pause = || crate::util::time::sleep_until(deadline_in(Duration::from_millis(2)));
            claims.leaving.wait_idle().await;
            let nodes = &claims.nodes;
            let closed = claims
                .sessions
                .close_if(|session| !nodes.any(|node| Arc::ptr_eq(&node.session, session)));
            while !closed.iter().all(|session| session.is_ended()) {
                pause().await;
            }
            Ok(())
        });
        Box::pin(async { drained.await.or(Ok(())) })
    }
}
