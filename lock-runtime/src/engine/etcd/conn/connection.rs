//! One connection to a member: the epoch in which its writes are carried out, and its watches.

use crate::engine::common::upkeep::Kept;
use crate::engine::etcd::conn::batch::Batch;
use crate::engine::etcd::conn::channel::{Channel, LoginAgain};
use crate::engine::etcd::conn::connection_state::ConnectionState;
use crate::engine::etcd::conn::epoch::{EPOCH_TTL, Epoch};
use crate::engine::etcd::wire::error::Failure;
use crate::engine::etcd::wire::frames::encode;
use crate::engine::etcd::wire::grpc::{Caller, Messages};
use crate::engine::etcd::wire::messages::{
    TxnRequest, TxnResponse, WatchCommand, WatchRequest, WatchResponse,
};
use crate::util::io_thread::IoThread;
use crate::util::time::{deadline_in, sleep_until};
use prost::bytes::Bytes;
use std::sync::{Arc, OnceLock, Weak};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

/// Receives what the watches of a connection report. It must not block.
pub(crate) type WatchHandler = Arc<dyn Fn(WatchResponse) + Send + Sync>;

pub(crate) struct Connection {
    pub(crate) channel: Channel,
    io: IoThread,
    epoch: OnceLock<Epoch>,
    watches: OnceLock<mpsc::UnboundedSender<WatchCommand>>,
    batch: Batch,
}

impl Connection {
    /// Starts to drive the connection.
    pub(crate) fn start<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        caller: Caller,
        mut driver: h2::client::Connection<S, Bytes>,
        again: LoginAgain,
    ) -> Arc<Connection> {
        let (io, timeouts) = (again.io, again.timeouts.clone());
        let state = Arc::new(ConnectionState::default());
        let pings = driver.ping_pong();
        let of_driver = state.clone();
        io.spawn_detached(async move {
            // Dropping the driver ends all requests.
            if let Some(Err(error)) = of_driver.until_ended(driver).await {
                of_driver.broken(&error);
            }
            of_driver.end();
        });
        if let Some(pings) = pings {
            let state = state.clone();
            io.spawn_detached(async move { state.probe(pings, &timeouts).await });
        }
        Arc::new(Connection {
            channel: Channel::new(caller, again, state),
            io,
            epoch: OnceLock::new(),
            watches: OnceLock::new(),
            batch: Batch::default(),
        })
    }

    /// Makes the writes of this connection the ones that are carried out, and follows its watches.
    pub(crate) async fn begin_epoch(
        self: &Arc<Self>,
        key: Bytes,
        on_watch: WatchHandler,
    ) -> Result<(), Failure> {
        let epoch = Epoch::begin(&self.channel, key).await?;
        let _ = self.watches.set(self.open_watches(on_watch).await?);
        let _ = self.epoch.set(epoch);
        self.io.spawn_detached(keep_epoch(Arc::downgrade(self)));
        Ok(())
    }

    async fn open_watches(
        &self,
        on_watch: WatchHandler,
    ) -> Result<mpsc::UnboundedSender<WatchCommand>, Failure> {
        let method = "/etcdserverpb.Watch/Watch";
        let (reply, mut sink) = self.channel.open(method).await?;
        let (watches, mut commands) = mpsc::unbounded_channel();
        let state = self.channel.state.clone();
        self.io.spawn_detached(async move {
            let write = async {
                while let Some(command) = commands.recv().await {
                    let command = Some(command);
                    let message = encode(&WatchRequest { command });
                    if sink.send_data(message, false).is_err() {
                        return;
                    }
                }
            };
            state.until_ended(write).await;
        });
        let state = self.channel.state.clone();
        self.io.spawn_detached(async move {
            let read = async {
                let mut messages = Messages::of(reply).await?;
                while let Some(message) = messages.next().await? {
                    on_watch(message);
                }
                Ok::<_, Failure>(())
            };
            state.until_ended(read).await;
            state.end();
        });
        Ok(watches)
    }

    /// Creates or cancels a watch.
    pub(crate) fn watch(&self, command: WatchCommand) {
        if let Some(watches) = self.watches.get() {
            let _ = watches.send(command);
        }
    }

    /// Returns the epoch, which has begun before the connection is used.
    pub(crate) fn epoch(&self) -> Option<&Epoch> {
        self.epoch.get()
    }

    /// Ends the epoch: nothing can be written through this connection from then on.
    pub(crate) async fn end_epoch(&self) -> Result<(), Failure> {
        match self.epoch.get() {
            Some(epoch) => epoch.end(&self.channel).await,
            None => Ok(()),
        }
    }

    /// Executes a transaction that may enter those lines, together with others that wait. What it reads is
    /// for a refusal only.
    pub(crate) async fn txn_in_batch(
        &self,
        txn: TxnRequest,
        lines: Vec<Bytes>,
    ) -> Result<TxnResponse, Failure> {
        let send = |txn| async move { self.channel.txn(&txn).await };
        self.batch.execute(txn, lines, send).await
    }
}

impl Kept for Connection {
    fn has_ended(&self) -> bool {
        self.channel.state.has_ended()
    }

    async fn ended(&self) {
        self.channel.state.ended().await;
    }

    /// Ends the connection, and all of its requests.
    fn end(&self) {
        self.channel.state.end();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.channel.state.end();
    }
}

/// Keeps the epoch alive as long as the connection is used.
async fn keep_epoch(connection: Weak<Connection>) {
    loop {
        sleep_until(deadline_in(EPOCH_TTL / 4)).await;
        let Some(connection) = connection.upgrade().filter(|it| !it.has_ended()) else {
            return;
        };
        let Some(epoch) = connection.epoch.get() else {
            return;
        };
        if !epoch.keep_alive(&connection.channel).await {
            return connection.end();
        }
    }
}
