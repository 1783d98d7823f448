//! Locks on Redis: on one server, on the master that Sentinels name, or on the nodes of a cluster.
//!
//! A lock is a plain string: `<prefix><key>` stores its holder's token and expires after the ttl, so it
//! interoperates with every client that uses `SET NX PX` and compare-and-delete.

pub(crate) mod check;
pub(crate) mod cluster;
pub(crate) mod commands;
pub(crate) mod hash_slot;
pub(crate) mod in_flight;
pub(crate) mod keys;
pub(crate) mod member;
pub(crate) mod net;
pub(crate) mod permissions;
pub(crate) mod quorum_commands;
pub(crate) mod router;
pub(crate) mod scripts;
pub(crate) mod sentinel;
pub(crate) mod subscription;
pub(crate) mod topology;

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::EventHandler;
use crate::engine::inspection::Inspection;
use crate::engine::redis::check::Inspector;
use crate::engine::redis::commands::{LockCommands, Via};
use crate::engine::redis::in_flight::UnansweredAcquires;
use crate::engine::redis::keys::Keys;
use crate::engine::redis::net::connector::{Connector, SendMode};
use crate::engine::redis::net::per_runtime::RuntimeConnection;
use crate::engine::redis::router::Router;
use crate::engine::redis::scripts::Scripts;
use crate::engine::redis::subscription::Subscription;
use crate::engine::redis::topology::Topology;
use crate::engine::request::{Claim, EngineFuture, EnqueueReply, ServerTime};
use crate::engine::timeouts::Timeouts;
use crate::engine::token::Token;
use crate::engine::traits::{Engine, Shard};
use crate::util::io_thread::IoThread;
use crate::util::time::deadline_in;
use crate::warning::{Warning, WarningKind};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(crate) struct RedisEngine {
    pub(crate) commands: LockCommands,
    in_flight: UnansweredAcquires,
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
        let connector = Connector {
            optional_commands: scripts.load(),
            ..Connector::new(io, topology.discovery(), timeouts, SendMode::Batched)
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
            in_flight: UnansweredAcquires::default(),
            inspector: Inspector {
                io,
                topology,
                timeouts,
            },
        };
        let deadline = deadline_in(timeouts.command);
        engine.commands.check_permissions(deadline).await?;
        Ok(engine)
    }

    /// Returns the connection that the calling runtime drives to the server that stores the lock.
    fn runtime_connection(&self, lock: &str) -> Option<Arc<RuntimeConnection>> {
        self.commands.router.runtime_connection(lock)
    }
}

impl Engine for RedisEngine {
    fn acquire<'a>(&'a self, claim: &'a Claim, deadline: Instant) -> EngineFuture<'a, bool> {
        Box::pin(async move {
            if claim.replicas > 0 {
                let via = Via::ReplicaAck(claim.replicas);
                return self.commands.set_nx(via, claim, deadline).await;
            }
            let own = self.runtime_connection(&claim.name);
            let acquire = self.in_flight.track(claim.token, own);
            let via = acquire.connection.as_deref().into();
            let acquired = self.commands.set_nx(via, claim, deadline).await;
            acquire.answered(&acquired);
            acquired
        })
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

    fn uses_caller_runtime(&self, name: &str) -> bool {
        self.runtime_connection(name)
            .is_some_and(|connection| connection.has_capacity())
    }

    fn release<'a>(&'a self, claim: &'a Claim, deadline: Instant) -> EngineFuture<'a, bool> {
        Box::pin(async move {
            let commands = &self.commands;
            if claim.replicas > 0 {
                // On the acquisition's connection, so that the release follows an acquisition that is
                // unanswered.
                let via = Via::ReplicaLink(claim.replicas);
                return commands.release(via, claim, deadline).await;
            }
            let Some(sent_via) = self.in_flight.remove(claim.token) else {
                let own = self.runtime_connection(&claim.name);
                let own = own.filter(|connection| connection.has_capacity());
                return commands
                    .release(own.as_deref().into(), claim, deadline)
                    .await;
            };
            let via = sent_via.as_deref().into();
            let released = commands.release(via, claim, deadline).await;
            if !matches!(&released, Err(error) if error.is_retryable()) {
                return released;
            }
            let Some(connection) = sent_via else {
                self.in_flight.insert(claim.token, None);
                return released;
            };
            // The runtime connection is gone. Its requests must not be carried out later than this one.
            let killed = commands
                .router
                .kill(&connection, &claim.name, deadline)
                .await;
            if let Err(error) = killed {
                self.in_flight.insert(claim.token, Some(connection));
                return Err(error);
            }
            commands.release(Via::IoThread, claim, deadline).await
        })
    }

    fn forget(&self, token: Token) {
        self.in_flight.remove(token);
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
