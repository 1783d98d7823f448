//! Connects to the first server that accepts writes.

use crate::engine::common::upkeep::Connect;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::mysql::address::Address;
use crate::engine::mysql::conn::connection::Connection;
use crate::engine::mysql::conn::session::Session;
use crate::engine::mysql::wire::error::Failure;
use crate::engine::mysql::wire::login::{Stream, log_in};
use crate::engine::timeouts::Timeouts;
use crate::engine::url::{NodeAddress, format_address};
use crate::util::io_thread::IoThread;
use crate::util::time::{deadline_in, now, timeout_at};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::Instant;

pub(crate) struct Connector {
    pub(crate) io: IoThread,
    pub(crate) address: Arc<Address>,
    pub(crate) timeouts: Timeouts,
    /// The server that was connected to last.
    pub(crate) last: AtomicUsize,
}

impl Connector {
    /// Begins a session with the first server that accepts writes. Each has a share of the time, so that one
    /// that hangs hides no other.
    /// `prepares`: it is to make the table, if there is none, and to prepare the statements.
    pub(crate) async fn begin(
        &self,
        timeout: Duration,
        prepares: bool,
    ) -> Result<Session, EngineError> {
        let credentials_by = self.timeouts.credentials_by();
        let login = self
            .address
            .credentials
            .get(self.io, credentials_by)
            .await?;
        let login = login.unwrap_or_default();
        let until = deadline_in(timeout);
        let (hosts, mut failed) = (self.address.hosts.len(), Vec::new());
        let first = self.last.load(Ordering::Relaxed);
        for tried in 0..hosts {
            let number = (first + tried) % hosts;
            let left = u32::try_from(hosts - tried).unwrap_or(1);
            let by = deadline_in(until.saturating_duration_since(now()) / left);
            match self
                .begin_at(&self.address.hosts[number], &login, prepares, by)
                .await
            {
                Ok(session) => {
                    self.last.store(number, Ordering::Relaxed);
                    return Ok(session);
                }
                Err(error) => failed.push((format_address(&self.address.hosts[number]), error)),
            }
        }
        Err(EngineError::of_servers(failed))
    }

    async fn begin_at(
        &self,
        host: &NodeAddress,
        login: &(String, String),
        prepares: bool,
        by: Instant,
    ) -> Result<Session, EngineError> {
        let begin = async {
            let (stream, name) = self.reach(host).await?;
            let logged_in = log_in(stream, name, &self.address, login).await?;
            let mut session = Session::begin(logged_in).await?;
            if prepares {
                session.prepare(self.address.create_table).await?;
            }
            Ok::<_, Failure>(session)
        };
        match timeout_at(by, begin).await {
            Ok(begun) => Ok(begun?),
            Err(_) => {
                let words =
                    "it does not reply in time; raise `connect_timeout` if the path to it is slow";
                Err(EngineError::new(EngineErrorKind::NotConnected, words))
            }
        }
    }

    /// Returns a stream, and the name of its other end, unless that is a Unix socket.
    async fn reach<'a>(
        &self,
        host: &'a NodeAddress,
    ) -> Result<(Box<dyn Stream>, Option<&'a str>), Failure> {
        #[cfg(unix)]
        if let Some(path) = &self.address.socket {
            return Ok((Box::new(tokio::net::UnixStream::connect(path).await?), None));
        }
        let stream = TcpStream::connect((&*host.0, host.1)).await?;
        stream.set_nodelay(true)?;
        Ok((Box::new(stream), Some(&host.0)))
    }
}

/// Makes the connections for requests.
pub(crate) struct ForRequests(pub(crate) Arc<Connector>);

impl Connect for ForRequests {
    type Connection = Connection;

    async fn connect(&mut self, timeout: Duration) -> Result<Arc<Connection>, EngineError> {
        let connector = &self.0;
        let by = connector.timeouts.end_of_try(timeout);
        let timeout = by.saturating_duration_since(now());
        let session = connector.begin(timeout, true).await?;
        let timeouts = connector.timeouts.clone();
        Ok(Arc::new(Connection::start(connector.io, session, timeouts)))
    }
}
