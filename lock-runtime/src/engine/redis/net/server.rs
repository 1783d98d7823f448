//! All connections to one server.

use crate::engine::error::EngineError;
use crate::engine::redis::net::batch::Request;
use crate::engine::redis::net::connector::Connector;
use crate::engine::redis::net::per_runtime::{RuntimeConnection, RuntimeConnections};
use crate::engine::redis::net::reconnect::{FirstConnect, ReconnectingConnection};
use crate::engine::redis::net::replica_ack::ReplicaAckConnections;
use redis::FromRedisValue;
use std::sync::Arc;
use tokio::time::Instant;

pub(crate) struct Server {
    main: Arc<ReconnectingConnection>,
    replica_ack: ReplicaAckConnections,
    per_runtime: Arc<RuntimeConnections>,
}

impl Server {
    /// Connects, and keeps the connection alive from then on.
    pub(crate) async fn connect(connector: &Connector) -> Result<Server, EngineError> {
        let main = ReconnectingConnection::connect(connector.clone()).await?;
        Ok(Server::new(main, connector))
    }

    /// Starts connecting, and continues after the first attempt, whose result is returned.
    pub(crate) fn connect_lazily(connector: &Connector) -> (Server, FirstConnect) {
        let (main, first) = ReconnectingConnection::connect_lazily(connector.clone());
        (Server::new(main, connector), first)
    }

    fn new(main: ReconnectingConnection, connector: &Connector) -> Server {
        let main = Arc::new(main);
        Server {
            replica_ack: ReplicaAckConnections::new(connector),
            per_runtime: RuntimeConnections::new(connector, &main),
            main,
        }
    }

    /// Sends a request, and waits for its reply until the deadline.
    pub(crate) async fn send<T: FromRedisValue>(
        &self,
        request: impl Into<Request>,
        deadline: Instant,
    ) -> Result<T, EngineError> {
        let request = request.into();
        match self.replica_ack.get(request.replicas) {
            Some(connection) => connection.send(request, deadline).await,
            None => self.main.send(request, deadline).await,
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.main.is_connected()
    }

    /// Returns the connection that the calling runtime drives, if there is one.
    pub(crate) fn runtime_connection(&self) -> Option<Arc<RuntimeConnection>> {
        self.per_runtime.current()
    }

    /// Returns `true` if that connection leads to this server.
    pub(crate) fn owns(&self, connection: &RuntimeConnection) -> bool {
        connection.belongs_to(&self.main)
    }
}
