//! One connection to one server.

use crate::credentials::Login;
use crate::engine::common::pace::MIN_TIMEOUT;
use crate::engine::url::{NodeAddress, format_address};
use crate::engine::zookeeper::address::Address;
use crate::engine::zookeeper::conn::stream::{Socket, Stream};
use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::messages::{Hello, Welcome, encode_login};
use crate::engine::zookeeper::wire::request::{Access, Request};
use crate::util::time::{deadline_in, timeout_at};
use std::future::poll_fn;
use std::io::{Error, ErrorKind};
use std::time::Duration;
use tokio::net::TcpStream;

impl Address {
    /// Connects to a server, and creates or continues a session there.
    pub(crate) async fn connect(
        &self,
        host: &NodeAddress,
        (hello, login): (&Hello, &Option<Login>),
        limit: Duration,
    ) -> Result<(Stream, Welcome), Error> {
        let connecting = async {
            let socket = TcpStream::connect((&*host.0, host.1)).await?;
            socket.set_nodelay(true)?;
            let mut stream = Stream::new(self.encrypt(host, socket).await?);
            stream.send(&hello.encode());
            let welcome = loop {
                poll_fn(|context| stream.poll(context)).await?;
                let message = stream.next_message();
                if let Some(message) = message.map_err(malformed)? {
                    break Welcome::parse(message);
                }
            };
            let welcome = welcome.ok_or_else(|| malformed(Failure::Malformed))?;
            if let Some((user, password)) = login {
                stream.send(&encode_login(user, password));
            }
            Ok((stream, welcome))
        };
        let connected = timeout_at(deadline_in(limit), connecting).await;
        let connected = connected.unwrap_or_else(|_| {
            let words = format!("no reply within {limit:.1?}; it may have no majority of servers");
            Err(Error::new(ErrorKind::TimedOut, words))
        });
        let host = format_address(host);
        connected.map_err(|error| Error::new(error.kind(), format!("`{host}`: {error}")))
    }

    #[cfg(feature = "tls")]
    async fn encrypt(
        &self,
        host: &NodeAddress,
        socket: TcpStream,
    ) -> Result<Box<dyn Socket>, Error> {
        use crate::engine::tls::encrypt;

        match &self.tls {
            Some(tls) => Ok(Box::new(encrypt(tls, &host.0, socket).await?)),
            None => Ok(Box::new(socket)),
        }
    }

    #[cfg(not(feature = "tls"))]
    async fn encrypt(&self, _: &NodeAddress, socket: TcpStream) -> Result<Box<dyn Socket>, Error> {
        Ok(Box::new(socket))
    }

    /// Returns whom the nodes of this user belong to.
    pub(crate) fn access(&self) -> Access {
        match self.credentials.exist() {
            true => Access::Creator,
            false => Access::Anyone,
        }
    }

    /// Creates a session with that timeout, and ends it. Returns the timeout that the ensemble gives instead.
    pub(crate) async fn negotiate(
        &self,
        host: &NodeAddress,
        (timeout, login): (Duration, &Option<Login>),
        limit: Duration,
    ) -> Result<Duration, Error> {
        let hello = Hello {
            session: 0,
            password: vec![0; 16],
            last_zxid: 0,
            timeout,
        };
        let (mut stream, welcome) = self.connect(host, (&hello, login), limit).await?;
        stream.send(&Request::CloseSession.encode(1, self.access()));
        // The server closes the connection, or a session is left for its timeout.
        let closed = async { while poll_fn(|context| stream.poll(context)).await.is_ok() {} };
        let _ = timeout_at(deadline_in(MIN_TIMEOUT), closed).await;
        Ok(welcome.timeout)
    }
}

fn malformed(failure: Failure) -> Error {
    Error::new(ErrorKind::InvalidData, failure)
}
