//! Routes requests: to the standalone server, or to the node of a cluster that owns the lock's slot.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::EventHandler;
use crate::engine::redis::cluster::Cluster;
use crate::engine::redis::cluster::seeds::SeedNodes;
use crate::engine::redis::hash_slot::slot_of;
use crate::engine::redis::net::batch::Request;
use crate::engine::redis::net::connector::Connector;
use crate::engine::redis::net::per_runtime::RuntimeConnection;
use crate::engine::redis::net::server::Server;
use crate::engine::traits::Shard;
use crate::util::time::deadline_in;
use redis::{Cmd, FromRedisValue, Value};
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
        let deadline = deadline_in(connector.timeouts.command);
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
    pub(crate) async fn send<T: FromRedisValue>(
        &self,
        lock: &str,
        request: impl Into<Request>,
        deadline: Instant,
    ) -> Result<T, EngineError> {
        match self {
            Router::Standalone(server) => server.send(request, deadline).await,
            Router::Cluster(cluster) => cluster.send(slot_of(lock), request.into(), deadline).await,
        }
    }

    /// Returns the connection that the calling runtime drives to the server that stores the lock.
    pub(crate) fn runtime_connection(&self, lock: &str) -> Option<Arc<RuntimeConnection>> {
        match self {
            Router::Standalone(server) => server.runtime_connection(),
            Router::Cluster(cluster) => cluster.runtime_connection(slot_of(lock)),
        }
    }

    /// Sends a command about that lock over a runtime connection, and waits for its reply until the
    /// deadline.
    pub(crate) async fn send_via<T: FromRedisValue>(
        &self,
        connection: &RuntimeConnection,
        lock: &str,
        command: Cmd,
        deadline: Instant,
    ) -> Result<T, EngineError> {
        match self {
            Router::Standalone(_) => connection.send(command, deadline).await,
            Router::Cluster(cluster) => {
                let slot = slot_of(lock);
                cluster.send_via(connection, slot, command, deadline).await
            }
        }
    }

    /// Kills a runtime connection, so that no request about the lock already sent on it can still be carried
    /// out.
    pub(crate) async fn kill(
        &self,
        connection: &RuntimeConnection,
        lock: &str,
        deadline: Instant,
    ) -> Result<(), EngineError> {
        match self {
            // A node that no longer owns the slot rejects the request by itself.
            Router::Cluster(cluster) if !cluster.owns(connection, slot_of(lock)) => Ok(()),
            _ => connection.kill(deadline).await,
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
    let fields: Vec<Value> = server.send(redis::cmd("HELLO"), deadline).await.ok()?;
    let text = |value: &Value| String::from_redis_value_ref(value).ok();
    let mut fields = fields.chunks_exact(2);
    fields.find_map(|field| (text(&field[0])? == "mode").then(|| text(&field[1]))?)
}
