//! Routes requests: to the standalone server, or to the node of a cluster that owns the lock's slot.

use crate::engine::background_release::BackgroundRelease;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::EventHandler;
use crate::engine::redis::conn::connect::Connector;
use crate::engine::redis::conn::request::{Envelope, Reply};
use crate::engine::redis::conn::server::Server;
use crate::engine::redis::hash_slot::slot_of;
use crate::engine::redis::topology::cluster::Cluster;
use crate::engine::redis::topology::cluster::seeds::SeedNodes;
use crate::engine::traits::Shard;
use crate::util::time::deadline_in;
use redis::{FromRedisValue, Value};
use std::sync::Arc;
use tokio::time::Instant;

pub(crate) enum Router {
    Standalone(Box<Server>),
    Cluster(Cluster),
}

impl Router {
    /// Connects to a server, or to the master that Sentinels name. Fails if the server is of another kind.
    pub(crate) async fn standalone(connector: &Connector) -> Result<Router, EngineError> {
        let server = Server::connect(connector).await?;
        let deadline = deadline_in(connector.timeouts.silence());
        let advice = match mode(&server, deadline).await.as_deref() {
            Some("cluster") => {
                "the server is a node of a Redis Cluster; use `redis-cluster://` instead of `redis://`"
            }
            Some("sentinel") => {
                "the server is a Sentinel; use `redis-sentinel://host:port/master` instead of `redis://`"
            }
            _ => return Ok(Router::Standalone(Box::new(server))),
        };
        Err(EngineError::new(EngineErrorKind::Rejected, advice))
    }

    /// Connects to a cluster.
    pub(crate) async fn cluster(
        seeds: Arc<SeedNodes>,
        connector: Connector,
        handler: EventHandler,
    ) -> Result<Router, EngineError> {
        let cluster = Cluster::connect(seeds, connector, handler).await?;
        Ok(Router::Cluster(cluster))
    }

    /// Sends a request about that lock, and waits for its reply until the deadline.
    pub(crate) async fn send<'a>(
        &self,
        lock: &str,
        envelope: &Envelope<'a>,
    ) -> Result<Reply<'a>, EngineError> {
        match self {
            Router::Standalone(server) => server.send(envelope).await,
            // Boxed: a request to a standalone server does not need the room.
            Router::Cluster(cluster) => Box::pin(cluster.send(slot_of(lock), envelope)).await,
        }
    }

    /// Sends a release that no caller awaits. Returns it if there is no connection.
    pub(crate) fn release_in_background(
        &self,
        release: BackgroundRelease,
    ) -> Result<(), BackgroundRelease> {
        match self {
            Router::Standalone(server) => server.release_in_background(release),
            Router::Cluster(cluster) => {
                cluster.release_in_background(slot_of(&release.claim.name), release)
            }
        }
    }

    /// Returns the server and the slot that store a lock.
    pub(crate) fn shard_of(&self, lock: &str) -> Shard {
        match self {
            Router::Standalone(_) => Shard { server: 0, slot: 0 },
            Router::Cluster(cluster) => {
                let slot = slot_of(lock);
                Shard {
                    server: cluster.server_id(slot),
                    slot,
                }
            }
        }
    }

    /// Returns a slot of each master, and one that has none, if there is such a slot.
    pub(crate) fn a_slot_of_each_master(&self) -> Vec<u16> {
        match self {
            Router::Standalone(_) => vec![0],
            Router::Cluster(cluster) => cluster.a_slot_of_each_master(),
        }
    }

    /// Returns the address of the cluster node that stores a lock.
    pub(crate) fn node_of(&self, lock: &str) -> Option<Arc<str>> {
        match self {
            Router::Standalone(_) => None,
            Router::Cluster(cluster) => cluster.node(slot_of(lock)),
        }
    }
}

/// Returns the server's mode, or `None` if it does not report one; then the URL counts as right.
async fn mode(server: &Server, deadline: Instant) -> Option<String> {
    let fields: Vec<Value> = server.ask(&["HELLO"], deadline).await.ok()?;
    let text = |value: &Value| String::from_redis_value_ref(value).ok();
    let mut fields = fields.chunks_exact(2);
    fields.find_map(|field| (text(&field[0])? == "mode").then(|| text(&field[1]))?)
}
