//! One connection to a member: the session that its writes belong to, and its watches.

use crate::engine::common::upkeep::Kept;
use crate::engine::etcd::conn::batch::Gather;
use crate::engine::etcd::conn::channel::Channel;
use crate::engine::etcd::conn::connection_state::ConnectionState;
use crate::engine::etcd::wire::error::Failure;
use crate::engine::etcd::wire::grpc::{Caller, Messages, encode};
use crate::engine::etcd::wire::messages::{
    LeaseGrantRequest, LeaseGrantResponse, PutRequest, TxnRequest, TxnResponse, WatchCommand,
    WatchRequest, WatchResponse,
};
use crate::engine::etcd::wire::txn;
use crate::engine::timeouts::Timeouts;
use crate::util::io_thread::IoThread;
use crate::util::time::{deadline_in, sleep_until};
use prost::bytes::Bytes;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use uuid::Uuid;

/// How long the session outlives a process that has died.
const SESSION_TTL: Duration = Duration::from_secs(60);

/// Receives what the watches of a connection report. It must not block.
pub(crate) type WatchHandler = Arc<dyn Fn(WatchResponse) + Send + Sync>;

pub(crate) struct Connection {
    pub(crate) channel: Channel,
    io: IoThread,
    session: OnceLock<Session>,
    gather: Gather,
}

/// What makes the writes of a connection void once there is another connection.
struct Session {
    key: Bytes,
    value: Bytes,
    lease: i64,
    watches: mpsc::UnboundedSender<WatchCommand>,
}

impl Connection {
    /// Starts to drive the connection.
    pub(crate) fn start<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        io: IoThread,
        caller: Caller,
        mut driver: h2::client::Connection<S, Bytes>,
        credentials: Option<(String, String)>,
        timeouts: Timeouts,
    ) -> Arc<Connection> {
        let state = Arc::new(ConnectionState::default());
        let pings = driver.ping_pong();
        let of_driver = state.clone();
        io.spawn_detached(async move {
            // Dropping the driver ends all requests.
            let _ = of_driver.until_ended(driver).await;
            of_driver.end();
        });
        if let Some(pings) = pings {
            let state = state.clone();
            io.spawn_detached(async move { state.probe(pings, &timeouts).await });
        }
        Arc::new(Connection {
            channel: Channel::new(caller, credentials, state),
            io,
            session: OnceLock::new(),
            gather: Gather::default(),
        })
    }

    /// Writes the session's key: from then on, the writes of earlier connections do nothing.
    pub(crate) async fn open_session(
        self: &Arc<Self>,
        key: Bytes,
        on_watch: WatchHandler,
    ) -> Result<(), Failure> {
        let grant = LeaseGrantRequest {
            ttl: SESSION_TTL.as_secs().cast_signed(),
        };
        let method = "/etcdserverpb.Lease/LeaseGrant";
        let lease: LeaseGrantResponse = self.channel.call(method, &grant).await?;
        let value = Bytes::from(Uuid::new_v4().simple().to_string());
        let put = PutRequest {
            key: key.clone(),
            value: value.clone(),
            lease: lease.id,
            ignore_lease: false,
        };
        let txn = TxnRequest {
            success: vec![txn::put(put)],
            ..TxnRequest::default()
        };
        self.channel.txn(&txn).await?;
        let watches = self.open_watches(on_watch).await?;
        let _ = self.session.set(Session {
            key,
            value,
            lease: lease.id,
            watches,
        });
        self.io.spawn_detached(keep_session(Arc::downgrade(self)));
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
        if let Some(session) = self.session.get() {
            let _ = session.watches.send(command);
        }
    }

    /// Returns the key and the value that make a write void when this connection has been replaced.
    pub(crate) fn session(&self) -> Option<(Bytes, Bytes)> {
        let session = self.session.get()?;
        Some((session.key.clone(), session.value.clone()))
    }

    /// Ends the session: nothing can be written through this connection from then on.
    pub(crate) async fn close_session(&self) -> Result<(), Failure> {
        match self.session.get() {
            Some(session) => self.channel.revoke(session.lease).await,
            None => Ok(()),
        }
    }

    /// Executes a transaction that may enter those lines, together with others that wait. What it reads is for a
    /// refusal only.
    pub(crate) async fn gathered_txn(
        &self,
        txn: TxnRequest,
        lines: Vec<Bytes>,
    ) -> Result<TxnResponse, Failure> {
        let send = |txn| async move { self.channel.txn(&txn).await };
        self.gather.execute(txn, lines, send).await
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

/// Keeps the session's lease alive as long as the connection is used.
async fn keep_session(connection: Weak<Connection>) {
    loop {
        sleep_until(deadline_in(SESSION_TTL / 4)).await;
        let Some(connection) = connection.upgrade().filter(|it| !it.has_ended()) else {
            return;
        };
        let Some(session) = connection.session.get() else {
            return;
        };
        match connection.channel.keep_alive(session.lease).await {
            Ok(reply) if reply.ttl <= 0 => return connection.end(),
            Ok(_) | Err(_) => {}
        }
    }
}
