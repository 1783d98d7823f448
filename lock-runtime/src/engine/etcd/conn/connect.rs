//! Makes connections: it reaches a member, logs in, and begins its epoch.

use crate::credentials::Login;
use crate::engine::etcd::address::Address;
use crate::engine::etcd::conn::channel::LoginAgain;
use crate::engine::etcd::conn::connection::{Connection, WatchHandler};
use crate::engine::etcd::wire::error::Failure;
use crate::engine::etcd::wire::grpc::Caller;
use crate::engine::etcd::wire::messages::{WatchCommand, WatchCreate};
use crate::engine::event::EventHandler;
use crate::engine::timeouts::Timeouts;
use crate::engine::url::{NodeAddress, format_address};
use crate::util::io_thread::IoThread;
use crate::util::time::timeout_at;
use prost::bytes::Bytes;
use std::future::Future;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;

pub(crate) struct Connector {
    pub(crate) io: IoThread,
    pub(crate) address: Address,
    pub(crate) timeouts: Timeouts,
    pub(crate) handler: EventHandler,
    /// The key that names the connection whose writes are carried out.
    pub(crate) epoch_key: Bytes,
    pub(crate) on_watch: WatchHandler,
    /// The watches of each connection that are there for no claim.
    pub(crate) own: [WatchCreate; 2],
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

impl Connector {
    /// Connects to a member, and makes all earlier connections of this process void.
    pub(crate) async fn connect(
        &self,
        host: &NodeAddress,
        login: Option<Login>,
        deadline: Instant,
    ) -> Result<Arc<Connection>, Failure> {
        let connection = self.reach(host, login, deadline).await?;
        let opened = connection.begin_epoch(self.epoch_key.clone(), self.on_watch.clone());
        by(
            deadline,
            "it confirmed no write in time; check that more than half of the members run, and raise \
             `connect_timeout` if the path to it is slow",
            opened,
        )
        .await?;
        for watch in &self.own {
            connection.watch(WatchCommand::Create(watch.clone()));
        }
        Ok(connection)
    }

    /// Connects to a member and logs in, without an epoch.
    pub(crate) async fn reach(
        &self,
        host: &NodeAddress,
        login: Option<Login>,
        deadline: Instant,
    ) -> Result<Arc<Connection>, Failure> {
        let stream = async {
            let stream = TcpStream::connect((&*host.0, host.1)).await?;
            stream.set_nodelay(true)?;
            Ok::<_, std::io::Error>(stream)
        };
        let stream = by(deadline, "it can't be reached", async {
            stream.await.map_err(Failure::not_sent)
        });
        let stream = stream.await?;
        let encrypted = self.encrypt(host, stream);
        let stream = by(deadline, "it does not speak TLS", encrypted).await?;
        let http = h2::client::Builder::new()
            .initial_window_size(1 << 20)
            .initial_connection_window_size(16 << 20)
            .handshake::<_, Bytes>(stream);
        let http = async { http.await.map_err(Failure::not_sent) };
        let (sender, driver) = by(deadline, "it does not reply", http).await?;
        let scheme = if self.address.is_tls { "https" } else { "http" };
        let caller = Caller {
            sender,
            origin: format!("{scheme}://{}", format_address(host)),
        };
        let again = LoginAgain {
            io: self.io,
            credentials: self.address.credentials.clone(),
            timeouts: self.timeouts.clone(),
        };
        let connection = Connection::start(caller, driver, again);
        let logged_in = connection.channel.log_in(login);
        by(deadline, "it does not reply to a login", logged_in).await?;
        Ok(connection)
    }

    #[cfg(feature = "tls")]
    async fn encrypt(
        &self,
        host: &NodeAddress,
        stream: TcpStream,
    ) -> Result<Box<dyn Duplex>, Failure> {
        use crate::engine::tls::encrypt;

        let Some(tls) = &self.address.tls else {
            return Ok(Box::new(stream));
        };
        let encrypted = encrypt(tls, &host.0, stream).await;
        Ok(Box::new(encrypted.map_err(Failure::not_sent)?))
    }

    #[cfg(not(feature = "tls"))]
    async fn encrypt(
        &self,
        _: &NodeAddress,
        stream: TcpStream,
    ) -> Result<Box<dyn Duplex>, Failure> {
        Ok(Box::new(stream))
    }
}

/// Fails with those words if the work is not done by the deadline.
async fn by<T>(
    deadline: Instant,
    words: &'static str,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let done = timeout_at(deadline, work).await;
    done.unwrap_or_else(|_| Err(Failure::not_sent(words)))
}
