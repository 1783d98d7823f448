//! The beginning of a connection: its socket is lent to the redis crate, which logs in.

use crate::engine::redis::address::Address;
use crate::engine::redis::conn::socket::{self, Lent, Stream};
use crate::util::io_thread::AbortOnDrop;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisResult};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// A connection of the redis crate, which ends when this is dropped.
pub(crate) struct Handshake {
    pub(crate) redis: MultiplexedConnection,
    driving: JoinHandle<()>,
    abort: AbortOnDrop,
    lent: Lent,
}

impl Handshake {
    /// Connects to the server and logs in. Must be called on the I/O thread; `runtime` is the one that will drive the
    /// socket.
    pub(crate) async fn begin(
        address: &Address,
        greeting: &RedisConnectionInfo,
        runtime: &Handle,
        config: AsyncConnectionConfig,
    ) -> RedisResult<Handshake> {
        // Every request has a deadline of its own, so the connection sets none.
        let config = config
            .set_connection_timeout(None)
            .set_response_timeout(None);
        let lent = Lent::new(socket::connect(address, runtime).await?);
        let connecting = MultiplexedConnection::new_with_config(greeting, lent.clone(), config);
        let (redis, work) = connecting.await?;
        let driving = tokio::spawn(work);
        Ok(Handshake {
            redis,
            abort: AbortOnDrop(driving.abort_handle()),
            driving,
            lent,
        })
    }

    /// Takes the socket back. All replies must have come: then the redis crate has read nothing that belongs to later
    /// requests.
    pub(super) async fn take_back(self) -> Option<Stream> {
        drop(self.abort);
        let _ = self.driving.await;
        self.lent.take()
    }
}
