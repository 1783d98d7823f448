//! Locks on Redis: on one server, on the master that Sentinels name, or on the nodes of a cluster.
//!
//! A lock is a plain string: `<prefix><key>` stores its holder's token and expires after the ttl, so it
//! interoperates with every client that uses `SET NX PX` and compare-and-delete.

pub(crate) mod check;
pub(crate) mod cluster;
pub(crate) mod commands;
pub(crate) mod hash_slot;
pub(crate) mod keys;
pub(crate) mod member;
pub(crate) mod net;
pub(crate) mod open;
pub(crate) mod permissions;
pub(crate) mod quorum_commands;
pub(crate) mod router;
pub(crate) mod scripts;
pub(crate) mod sentinel;
pub(crate) mod subscription;
pub(crate) mod topology;

use crate::engine::background_release::{BackgroundRelease, ReleaseSupervisor, UnansweredAcquire};
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::EventHandler;
use crate::engine::inspection::Inspection;
use crate::engine::redis::check::Inspector;
use crate::engine::redis::commands::{LockCommands, unexpected_reply};
use crate::engine::redis::keys::Keys;
use crate::engine::redis::net::connector::{Connector, Pipelining, SendMode};
use crate::engine::redis::net::encoder::Encoding;
use crate::engine::redis::net::replica_ack::check_replica_count;
use crate::engine::redis::net::request::{Reply, Request};
use crate::engine::redis::net::slots::request::granted;
use crate::engine::redis::router::Router;
use crate::engine::redis::scripts::Scripts;
use crate::engine::redis::subscription::Subscription;
use crate::engine::redis::topology::Topology;
use crate::engine::request::{Acquired, Attempt, Claim, EngineFuture, EnqueueReply, ServerTime};
use crate::engine::timeouts::Timeouts;
use crate::engine::token::Token;
use crate::engine::traits::{Engine, Shard};
use crate::util::io_thread::IoThread;
use crate::util::time::deadline_in;
use crate::warning::{Warning, WarningKind};
use redis::Value;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(crate) struct RedisEngine {
    pub(crate) commands: LockCommands,
    inspector: Inspector,
}

impl RedisEngine {
    /// Connects, and fails if that takes longer than the connect timeout.
    pub(crate) async fn connect(
        io: IoThread,
        topology: Topology,
        timeouts: Timeouts,
        prefix: &str,
        handler: EventHandler,
    ) -> Result<RedisEngine, EngineError> {
        let cluster = matches!(topology, Topology::Cluster(_));
        let keys = Keys::new(prefix, cluster);
        let keys = keys.map_err(|reason| EngineError::new(EngineErrorKind::Rejected, reason))?;
        let scripts = Scripts::new(cluster);
        let pipelining = Pipelining {
            encoding: Arc::new(Encoding {
                keys: keys.clone(),
                take: scripts.take.digest.clone(),
                release: scripts.release.digest.clone(),
            }),
            runtime: None,
            wait: None,
        };
        let send_mode = SendMode::Pipelined(pipelining);
        let connector = Connector {
            optional_commands: scripts.load(),
            ..Connector::new(io, topology.discovery(), timeouts.clone(), send_mode)
        };
        let subscription = Subscription::new(&connector, &keys, handler.clone());
        let router = match &topology {
            Topology::Cluster(seeds) => Router::cluster(seeds.clone(), connector, handler).await?,
            _ => Router::standalone(&connector).await?,
        };
        let engine = RedisEngine {
            commands: LockCommands {
                router,
                scripts,
                keys,
                subscription,
            },
            inspector: Inspector {
                io,
                topology,
                timeouts: timeouts.clone(),
            },
        };
        let deadline = deadline_in(timeouts.silence());
        engine.commands.check_permissions(deadline).await?;
        Ok(engine)
    }
}

/// Returns what was acquired, or `None` if the first lock was not free.
fn acquired(
    attempt: &Attempt,
    supervisor: &Arc<dyn ReleaseSupervisor>,
    reply: Reply,
) -> Result<Option<Acquired>, EngineError> {
    let token = reply
        .token
        .ok_or_else(|| unexpected_reply("without a token".to_owned()))?;
    let unanswered = UnansweredAcquire::new(attempt, token, supervisor);
    if !matches!(reply.value, Value::Array(_)) {
        return unanswered.answered(Ok(granted(&reply.value)));
    }
    // Unless the replicas have acknowledged them, the locks are released.
    let (taken, known): (Value, u32) = reply.decode()?;
    let acquired = match granted(&taken) {
        0 => Ok(0),
        count => check_replica_count(known, attempt.replicas).map(|()| count),
    };
    unanswered.answered(acquired)
}

impl Engine for RedisEngine {
    fn acquire<'a>(
        &'a self,
        attempt: &'a Attempt,
        supervisor: &'a Arc<dyn ReleaseSupervisor>,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Acquired>> {
        Box::pin(async move {
            let request = Request::acquire(attempt, supervisor);
            let router = &self.commands.router;
            let reply = router.send(&attempt.name, &request, deadline).await;
            let reply = match reply {
                Err(error) if attempt.needs_script() => {
                    // Boxed: few servers have forgotten the script.
                    let again = self.commands.take_again(&request, attempt, error, deadline);
                    match Box::pin(again).await? {
                        Some(reply) => reply,
                        None => return Ok(None),
                    }
                }
                reply => reply?,
            };
            acquired(attempt, supervisor, reply)
        })
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
        Box::pin(self.commands.enqueue(claim, valid_until, deadline))
    }

    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        in_flight: bool,
        deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        Box::pin(self.commands.cancel(claim, in_flight, deadline))
    }

    fn on_missed_grant(&self) {
        self.commands.subscription.resubscribe();
    }

    fn release<'a>(&'a self, claim: &'a Claim, deadline: Instant) -> EngineFuture<'a, bool> {
        Box::pin(async move {
            // The claim's acquisition may be under way on a connection that broke.
            self.commands
                .router
                .kill_broken(&claim.name, deadline)
                .await?;
            self.commands.release(claim, deadline).await
        })
    }

    fn release_in_background(&self, release: BackgroundRelease) -> Result<(), BackgroundRelease> {
        self.commands.router.release_in_background(release)
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<Result<bool, EngineError>>> {
        Box::pin(async move { Ok(self.commands.renew(claims, deadline).await) })
    }

    fn shard_of(&self, name: &str) -> Shard {
        self.commands.router.shard_of(name)
    }

    fn node_of(&self, name: &str) -> Option<Arc<str>> {
        self.commands.router.node_of(name)
    }

    fn fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<u64>> {
        Box::pin(self.commands.fencing_token(claim, deadline))
    }

    fn raise_fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        token: u64,
        deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        Box::pin(self.commands.raise_fencing_token(claim, token, deadline))
    }

    fn downgrade<'a>(
        &'a self,
        claim: &'a Claim,
        to: Token,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Duration>> {
        Box::pin(self.commands.downgrade(claim, to, deadline))
    }

    fn inspect(
        &self,
        ttl: Duration,
        replicas: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        Box::pin(async move {
            let deadline = deadline_in(self.inspector.timeouts.command);
            let mut found = self.inspector.inspect(ttl, replicas).await;
            if let Err(error) = self.commands.check_permissions(deadline).await {
                let server = self.inspector.topology.to_string().into();
                let warning = Warning::new(&server, WarningKind::Permission, error.to_string());
                found.warnings.push(warning);
            }
            found
        })
    }
}
