//! All connections to one server.

use crate::engine::background_release::BackgroundRelease;
use crate::engine::common::pace::FirstTry;
use crate::engine::common::upkeep::Kept;
use crate::engine::error::EngineError;
use crate::engine::redis::conn::client_id::BrokenClients;
use crate::engine::redis::conn::connect::Connector;
use crate::engine::redis::conn::per_runtime::RuntimeConnections;
use crate::engine::redis::conn::reconnect::ReconnectingConnection;
use crate::engine::redis::conn::replicas::ReplicaAckConnections;
use crate::engine::redis::conn::request::{Content, Envelope, Reply, Via};
use redis::{FromRedisValue, Value};
use std::sync::Arc;
use tokio::time::Instant;

pub(crate) struct Server {
    main: ReconnectingConnection,
    replica_ack: ReplicaAckConnections,
    per_runtime: Arc<RuntimeConnections>,
    broken: Arc<BrokenClients>,
}

impl Server {
    /// Connects, and keeps the connection alive from then on.
    pub(crate) async fn connect(connector: &Connector) -> Result<Server, EngineError> {
        let (server, first) = Server::connect_lazily(connector);
        first.result().await.map(|()| server)
    }

    /// Starts connecting, and continues after the first try, whose result is returned.
    pub(crate) fn connect_lazily(connector: &Connector) -> (Server, FirstTry) {
        let connector = of_one_server(connector);
        let (main, first) = ReconnectingConnection::connect(connector.clone());
        let server = Server {
            replica_ack: ReplicaAckConnections::new(&connector),
            per_runtime: RuntimeConnections::new(&connector),
            broken: connector.broken,
            main,
        };
        (server, first)
    }

    /// Sends a request, and waits for its reply until the deadline.
    pub(crate) async fn send<'a>(&self, envelope: &Envelope<'a>) -> Result<Reply<'a>, EngineError> {
        if matches!(envelope.content, Content::Release(_)) && self.broken.first().is_some() {
            // The claim's acquisition may be under way on a connection that broke.
            Box::pin(self.kill_broken(envelope.deadline)).await?;
        }
        if envelope.delivery.via == Via::Runtime
            && let Some(connection) = self.per_runtime.current()
        {
            match connection.send(envelope).await {
                Ok(reply) => return Ok(reply),
                Err(failed) => {
                    if failed.broken {
                        connection.end();
                    }
                    if !failed.not_sent {
                        return Err(failed.error);
                    }
                }
            }
        }
        // Boxed: a request over the runtime's own connection does not need the room.
        Box::pin(self.send_by_io_thread(envelope)).await
    }

    async fn send_by_io_thread<'a>(
        &self,
        envelope: &Envelope<'a>,
    ) -> Result<Reply<'a>, EngineError> {
        match envelope.delivery.via {
            Via::Replicas(replicas) => self.replica_ack.get(replicas).send(envelope).await,
            _ => self.main.send(envelope).await,
        }
    }

    /// Sends a release that no caller awaits. Returns it if there is no connection.
    pub(crate) fn release_in_background(
        &self,
        release: BackgroundRelease,
    ) -> Result<(), BackgroundRelease> {
        let own = self.per_runtime.current();
        let mut release = release;
        for connection in own.into_iter().chain(self.main.present()) {
            if let Some(pipeline) = connection.pipeline() {
                release = match pipeline.release_in_background(release) {
                    Ok(()) => return Ok(()),
                    Err(refused) => refused,
                };
            }
        }
        Err(release)
    }

    /// Makes the server close all broken connections, so that no request on them is still executed.
    async fn kill_broken(&self, deadline: Instant) -> Result<(), EngineError> {
        while let Some(client) = self.broken.first() {
            match self.ask::<Value>(&client.kill(), deadline).await {
                Err(error) if error.is_retryable() => return Err(error),
                // It is closed, or the server knows no such command.
                _ => self.broken.remove(&client),
            }
        }
        Ok(())
    }

    /// Sends a command that is about no lock.
    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        words: &[&str],
        deadline: Instant,
    ) -> Result<T, EngineError> {
        self.main.ask(words, deadline).await
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.main.present().is_some()
    }
}

/// Returns a connector that shares its broken connections with no other server.
fn of_one_server(connector: &Connector) -> Connector {
    Connector {
        broken: Arc::default(),
        ..connector.clone()
    }
}
