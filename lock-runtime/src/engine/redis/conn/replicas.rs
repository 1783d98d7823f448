//! Connections for requests that count only when replicas have acknowledged them.
//!
//! `WAIT` counts what was written on its own connection, and blocks that connection. So there is one more
//! connection for each number of replicas that a lock asks for.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::redis::conn::connect::Connector;
use crate::engine::redis::conn::reconnect::ReconnectingConnection;
use crate::engine::redis::wire::encode::command;
use crate::engine::timeouts::Timeouts;
use crate::util::sync::Mutex;
use redis::Cmd;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct ReplicaAckConnections {
    connector: Connector,
    connections: Mutex<BTreeMap<u32, Arc<ReconnectingConnection>>>,
}

impl ReplicaAckConnections {
    /// Connections to the server that `connector` connects to.
    pub(crate) fn new(connector: &Connector) -> ReplicaAckConnections {
        ReplicaAckConnections {
            connector: connector.clone(),
            connections: Mutex::default(),
        }
    }

    /// Returns the connection on which that number of replicas is awaited.
    pub(crate) fn get(&self, replicas: u32) -> Arc<ReconnectingConnection> {
        let mut connections = self.connections.lock();
        let open = || {
            let connector = Connector {
                wait: Some(wait_command(replicas, &self.connector.timeouts)),
                ..self.connector.clone()
            };
            // The first attempt may last for the connect timeout: no lease depends on it yet, and each call
            // waits for it until its own deadline.
            let (connection, _) = ReconnectingConnection::connect(connector);
            Arc::new(connection)
        };
        connections.entry(replicas).or_insert_with(open).clone()
    }
}

fn wait_command(replicas: u32, timeouts: &Timeouts) -> Cmd {
    let timeout = wait_timeout(timeouts).as_millis().max(1);
    command(&["WAIT", &replicas.to_string(), &timeout.to_string()])
}

/// Returns how long replicas are awaited. A request that arrives while others wait has to wait twice, and
/// must still get its reply in time.
fn wait_timeout(timeouts: &Timeouts) -> Duration {
    timeouts.command * 2 / 5
}

/// Fails if fewer replicas have acknowledged a request than its claim requires.
pub(crate) fn check_replica_count(known: u32, wanted: u32) -> Result<(), EngineError> {
    if known >= wanted {
        return Ok(());
    }
    let words = format!(
        "{known} of the {wanted} replicas asked for acknowledged it in time; check that they run and \
         keep up with the master"
    );
    Err(EngineError::new(EngineErrorKind::NotReplicated, words))
}
