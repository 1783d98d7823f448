//! One connection to a member: the session that its writes belong to, its login, and its watches.

use crate::engine::etcd::failure::Failure;
use crate::engine::etcd::fate::Fate;
use crate::engine::etcd::gather::Gather;
use crate::engine::etcd::grpc::{Caller, Messages, encode};
use crate::engine::etcd::messages::{
    AuthenticateRequest, AuthenticateResponse, Empty, KeepAliveResponse, LeaseGrantRequest,
    LeaseGrantResponse, LeaseRequest, PutRequest, TxnRequest, TxnResponse, WatchCommand,
    WatchRequest, WatchResponse,
};
use crate::engine::etcd::txn;
use crate::engine::timeouts::Timeouts;
use crate::util::io_thread::IoThread;
use crate::util::sync::Mutex;
use crate::util::time::{deadline_in, sleep_until, timeout_at};
use http::HeaderValue;
use prost::Message;
use prost::bytes::Bytes;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use uuid::Uuid;

/// The longest time that a request can be unanswered: a server gives a proposal up after 5 s and two election
/// timeouts.
const MAX_ANSWER: Duration = Duration::from_secs(10);

/// How long the session outlives a process that has died.
const SESSION_TTL: Duration = Duration::from_secs(60);

/// Receives what the watches of a connection report. It must not block.
pub(super) type WatchHandler = Arc<dyn Fn(WatchResponse) + Send + Sync>;

pub(super) struct Connection {
    io: IoThread,
    caller: Caller,
    login: Login,
    session: OnceLock<Session>,
    /// The term of the last answer that a majority has agreed to.
    term: AtomicU64,
    fate: Arc<Fate>,
    gather: Gather,
}

/// The user of a connection, and the token that the server knows it by.
pub(super) struct Login {
    credentials: Option<(String, String)>,
    token: Mutex<Option<HeaderValue>>,
}

/// What makes the writes of a connection void once there is another connection.
struct Session {
    key: Bytes,
    value: Bytes,
    lease: i64,
    watches: mpsc::UnboundedSender<WatchCommand>,
}

impl Login {
    pub(super) fn new(credentials: Option<(String, String)>) -> Login {
        Login {
            credentials,
            token: Mutex::default(),
        }
    }

    fn token(&self) -> Option<HeaderValue> {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        token.clone()
    }
}

impl Connection {
    /// Starts to drive the connection.
    pub(super) fn start<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        io: IoThread,
        caller: Caller,
        mut driver: h2::client::Connection<S, Bytes>,
        login: Login,
        timeouts: Timeouts,
    ) -> Arc<Connection> {
        let fate = Arc::new(Fate::default());
        let pings = driver.ping_pong();
        let of_driver = fate.clone();
        io.spawn_detached(async move {
            // Dropping the driver ends all requests.
            let _ = of_driver.until_ended(driver).await;
            of_driver.end();
        });
        if let Some(pings) = pings {
            let fate = fate.clone();
            io.spawn_detached(async move { fate.probe(pings, timeouts.command).await });
        }
        Arc::new(Connection {
            io,
            caller,
            login,
            session: OnceLock::new(),
            term: AtomicU64::new(0),
            fate,
            gather: Gather::default(),
        })
    }

    /// Ends the connection, and all of its requests.
    pub(super) fn end(&self) {
        self.fate.end();
    }

    /// Does the work until the connection ends; returns `None` if it ended first.
    pub(super) async fn until_ended<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.fate.until_ended(work).await
    }

    pub(super) fn has_ended(&self) -> bool {
        self.fate.has_ended()
    }

    /// Returns the term of the last answer that a majority has agreed to.
    pub(super) fn term(&self) -> u64 {
        self.term.load(Ordering::Acquire)
    }

    /// Fetches the token of the user, if there is one.
    pub(super) async fn log_in(&self) -> Result<(), Failure> {
        let Some((name, password)) = &self.login.credentials else {
            return Ok(());
        };
        let request = AuthenticateRequest {
            name: name.clone(),
            password: password.clone(),
        };
        let method = "/etcdserverpb.Auth/Authenticate";
        let answer: AuthenticateResponse = match self.caller.unary(method, &request, None).await {
            Ok(answer) => answer,
            // The server lets everybody in.
            Err(failure) if failure.needs_no_login() => return Ok(()),
            Err(failure) => return Err(failure),
        };
        let token = HeaderValue::from_str(&answer.token).map_err(Failure::not_sent)?;
        let known = self.login.token.lock();
        *known.unwrap_or_else(PoisonError::into_inner) = Some(token);
        Ok(())
    }

    /// Writes the session's key: from then on, the writes of earlier connections do nothing.
    pub(super) async fn open_session(
        self: &Arc<Self>,
        key: Bytes,
        on_watch: WatchHandler,
    ) -> Result<(), Failure> {
        let grant = LeaseGrantRequest {
            ttl: SESSION_TTL.as_secs().cast_signed(),
        };
        let lease: LeaseGrantResponse = self.call("/etcdserverpb.Lease/LeaseGrant", &grant).await?;
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
        self.txn(&txn).await?;
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
        let (answer, mut sink) = self.caller.open(method, self.login.token()).await?;
        let (watches, mut commands) = mpsc::unbounded_channel();
        let fate = self.fate.clone();
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
            fate.until_ended(write).await;
        });
        let fate = self.fate.clone();
        self.io.spawn_detached(async move {
            let read = async {
                let mut messages = Messages::of(answer).await?;
                while let Some(message) = messages.next().await? {
                    on_watch(message);
                }
                Ok::<_, Failure>(())
            };
            fate.until_ended(read).await;
            fate.end();
        });
        Ok(watches)
    }

    /// Creates or cancels a watch.
    pub(super) fn watch(&self, command: WatchCommand) {
        if let Some(session) = self.session.get() {
            let _ = session.watches.send(command);
        }
    }

    /// Returns the key and the value that make a write void when this connection has been replaced.
    pub(super) fn session(&self) -> Option<(Bytes, Bytes)> {
        let session = self.session.get()?;
        Some((session.key.clone(), session.value.clone()))
    }

    /// Ends the session: nothing can be written through this connection from then on.
    pub(super) async fn close_session(&self) -> Result<(), Failure> {
        match self.session.get() {
            Some(session) => self.revoke(session.lease).await,
            None => Ok(()),
        }
    }

    pub(super) async fn revoke(&self, lease: i64) -> Result<(), Failure> {
        let request = LeaseRequest { id: lease };
        let _: Empty = self
            .call("/etcdserverpb.Lease/LeaseRevoke", &request)
            .await?;
        Ok(())
    }

    /// Keeps a lease alive. One message on a stream of its own is answered by one.
    pub(super) async fn keep_alive(&self, lease: i64) -> Result<KeepAliveResponse, Failure> {
        let request = LeaseRequest { id: lease };
        self.call("/etcdserverpb.Lease/LeaseKeepAlive", &request)
            .await
    }

    /// Executes a transaction, which a majority agrees to.
    pub(super) async fn txn(&self, txn: &TxnRequest) -> Result<TxnResponse, Failure> {
        let answer: TxnResponse = self.call("/etcdserverpb.KV/Txn", txn).await?;
        let term = answer.header.as_ref().map_or(0, |header| header.raft_term);
        self.term.fetch_max(term, Ordering::AcqRel);
        Ok(answer)
    }

    /// Executes a transaction that may enter those lines, together with others that wait. What it reads is for a
    /// refusal only.
    pub(super) async fn gathered_txn(
        &self,
        txn: TxnRequest,
        lines: Vec<Bytes>,
    ) -> Result<TxnResponse, Failure> {
        let send = |txn| async move { self.txn(&txn).await };
        self.gather.execute(txn, lines, send).await
    }

    /// Calls a method. A request whose outcome is not known ends the connection: what it may still do on the server
    /// is void as soon as there is another one.
    pub(super) async fn call<Q: Message, A: Message + Default>(
        &self,
        method: &'static str,
        request: &Q,
    ) -> Result<A, Failure> {
        let answer = self.answered(self.caller.unary(method, request, self.login.token()));
        let answer = match answer.await {
            Err(failure) if self.login.credentials.is_some() && failure.is_old_token() => {
                self.answered(self.log_in()).await?;
                let again = self.caller.unary(method, request, self.login.token());
                self.answered(again).await
            }
            answer => answer,
        };
        if answer.as_ref().is_err_and(Failure::ends_connection) {
            self.end();
        }
        answer
    }

    async fn answered<T>(
        &self,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut call = pin!(call);
        let soon = deadline_in(Duration::from_millis(200));
        if let Ok(answer) = timeout_at(soon, call.as_mut()).await {
            return answer;
        }
        self.fate.doubt();
        let answer = timeout_at(deadline_in(MAX_ANSWER), call).await;
        answer.unwrap_or_else(|_| Err(Failure::unanswered("the server did not answer in time")))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.fate.end();
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
        match connection.keep_alive(session.lease).await {
            Ok(answer) if answer.ttl <= 0 => return connection.end(),
            Ok(_) | Err(_) => {}
        }
    }
}
