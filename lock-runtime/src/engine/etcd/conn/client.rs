//! The connection to the cluster, which a member at a time keeps up.

use crate::engine::common::pace::{MIN_TIMEOUT, Pace};
use crate::engine::common::upkeep::{Connect, Upkeep};
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::etcd::conn::connect::Connector;
use crate::engine::etcd::conn::connection::Connection;
use crate::engine::etcd::wire::error::Failure;
use crate::engine::url::format_address;
use crate::util::io_thread::IoThread;
use crate::util::time::{deadline_in, now};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// The time that each member has in the first round of tries: enough for the two writes that begin an epoch,
/// which a majority stores.
const MEMBER_TIMEOUT: Duration = MIN_TIMEOUT.saturating_mul(2);

pub(crate) struct Client {
    pub(crate) io: IoThread,
    pub(crate) connector: Arc<Connector>,
    connection: Upkeep<Connection>,
}

/// Connects to one member after the other.
struct RoundRobin<F> {
    connector: Arc<Connector>,
    /// The number of the member to try next.
    next: usize,
    on_connect: F,
}

impl Client {
    /// Connects to the first member that replies, and keeps a connection from then on. `on_connect` is called
    /// for each connection.
    pub(crate) async fn connect(
        connector: Connector,
        on_connect: impl Fn() + Send + 'static,
    ) -> Result<Client, EngineError> {
        let connector = Arc::new(connector);
        let (io, address) = (connector.io, &connector.address);
        let count = u32::try_from(address.hosts.len()).unwrap_or(u32::MAX);
        let round = MEMBER_TIMEOUT.saturating_mul(count);
        let of = (address as _, "requests");
        let pace = Pace::new(of, round, &connector.timeouts, connector.handler.clone());
        let (pace, first) = pace.awaited();
        let members = RoundRobin {
            connector: connector.clone(),
            // Processes spread over the members.
            next: Uuid::new_v4().as_u128() as usize % address.hosts.len().max(1),
            on_connect,
        };
        let client = Client {
            io,
            connector,
            connection: Upkeep::start(io, pace, members),
        };
        first.result().await.map(|()| client)
    }

    /// Returns the present connection, if there is one.
    pub(crate) fn present(&self) -> Option<Arc<Connection>> {
        self.connection.present()
    }

    /// Waits for a connection as long as one may be made soon.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>, EngineError> {
        self.connection.connection(false).await
    }

    /// Waits until there is a connection.
    pub(crate) async fn until_connected(&self) {
        let _ = self.connection.connection(true).await;
    }

    /// Runs a request on the I/O thread, where it continues if the caller leaves. A request without a reply
    /// by the deadline may have been executed.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        deadline: Instant,
        request: impl Future<Output = Result<T, EngineError>> + Send + 'static,
    ) -> Result<T, EngineError> {
        let reply = self.io.run_to_end(deadline, request).await;
        reply.unwrap_or_else(|| Err(EngineError::no_reply()))
    }
}

impl<F: Fn() + Send + 'static> Connect for RoundRobin<F> {
    type Connection = Connection;

    async fn connect(&mut self, timeout: Duration) -> Result<Arc<Connection>, EngineError> {
        let Connector {
            io,
            address,
            timeouts,
            ..
        } = &*self.connector;
        let login = address.credentials.get(*io, timeouts.credentials_by());
        let (login, hosts) = (login.await?, &address.hosts);
        let (deadline, mut failures) = (timeouts.end_of_try(timeout), Vec::new());
        for left in (1..=hosts.len()).rev() {
            let host = &hosts[self.next % hosts.len()];
            self.next += 1;
            // A member that hangs hides no other.
            let left = u32::try_from(left).unwrap_or(u32::MAX);
            let time = deadline.saturating_duration_since(now()) / left;
            let connected = self
                .connector
                .connect(host, login.clone(), deadline_in(time));
            match connected.await {
                Ok(connection) => return Ok(connection),
                Err(failure) => failures.push((format_address(host), failure)),
            }
        }
        Err(summary(failures))
    }

    fn connected(&mut self, _: &Arc<Connection>) {
        (self.on_connect)();
    }
}

/// Returns what the members replied.
fn summary(failures: Vec<(String, Failure)>) -> EngineError {
    let mut kind = EngineErrorKind::Rejected;
    let mut words = Vec::new();
    for (host, failure) in failures {
        let error = failure.into_engine_error();
        if error.kind != EngineErrorKind::Rejected {
            kind = EngineErrorKind::NotConnected;
        }
        words.push(format!("{host}: {error}"));
    }
    EngineError::new(kind, words.join("; "))
}
