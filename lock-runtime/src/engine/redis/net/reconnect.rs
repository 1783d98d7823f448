//! A connection that reconnects when it breaks.
//!
//! A task on the I/O thread makes a new connection when the current one breaks or stops replying. While there
//! is none, requests fail at once; nothing is ever sent twice.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::redis::net::connection::Connection;
use crate::engine::redis::net::connector::Connector;
use crate::engine::redis::net::request::{Reply, Request};
use crate::trace;
use crate::util::backoff::Backoff;
use crate::util::io_thread::{IoThread, pause};
use crate::util::panics::caught;
use crate::util::time::now;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

/// The result of the first attempt to connect.
pub(crate) type FirstConnect = oneshot::Receiver<Result<(), EngineError>>;

pub(crate) struct ReconnectingConnection {
    io: IoThread,
    state: Arc<watch::Sender<State>>,
}

#[derive(Clone)]
enum State {
    Up(Arc<Connection>),
    /// The connection broke, and the first attempt to make a new one is under way.
    Reconnecting,
    /// The last attempt failed with this error; more attempts follow.
    Down(EngineError),
    /// The connection is no longer needed.
    Closed,
}

impl ReconnectingConnection {
    /// Connects, and keeps the connection alive from then on.
    pub(crate) async fn connect(
        connector: Connector,
    ) -> Result<ReconnectingConnection, EngineError> {
        let (connection, first) = ReconnectingConnection::connect_lazily(connector);
        match first.await {
            Ok(connected) => connected.map(|()| connection),
            Err(_) => Err(EngineError::new(
                EngineErrorKind::NotConnected,
                "the I/O thread has ended",
            )),
        }
    }

    /// Starts connecting, and continues after the first attempt, whose result is returned.
    pub(crate) fn connect_lazily(connector: Connector) -> (ReconnectingConnection, FirstConnect) {
        let (first, connected) = oneshot::channel();
        (
            ReconnectingConnection::start(connector, Some(first)),
            connected,
        )
    }

    /// Connects in the background, as if a connection had broken.
    pub(crate) fn connect_in_background(connector: Connector) -> ReconnectingConnection {
        ReconnectingConnection::start(connector, None)
    }

    fn start(
        mut connector: Connector,
        mut first: Option<oneshot::Sender<Result<(), EngineError>>>,
    ) -> ReconnectingConnection {
        let io = connector.io;
        let (state, mut changes) = watch::channel(State::Reconnecting);
        let state = Arc::new(state);
        let weak = Arc::downgrade(&state);
        io.spawn_detached(async move {
            let (connector, changes) = (&mut connector, &mut changes);
            while caught(reconnect_loop(connector, &weak, changes, &mut first))
                .await
                .is_err()
            {
                pause().await;
            }
        });
        ReconnectingConnection { io, state }
    }

    /// Waits until there is a connection.
    pub(crate) async fn connected(&self, deadline: Instant) -> Result<(), EngineError> {
        self.connection(false, deadline).await.map(drop)
    }

    /// Replaces the present connection.
    pub(crate) fn reconnect(&self) {
        self.state.send_if_modified(|state| {
            let up = matches!(state, State::Up(_));
            if up {
                *state = State::Reconnecting;
            }
            up
        });
    }

    /// Returns the present connection, if there is one.
    pub(crate) fn present(&self) -> Option<Arc<Connection>> {
        match &*self.state.borrow() {
            State::Up(connection) => Some(connection.clone()),
            _ => None,
        }
    }

    /// Sends a request, and waits for its reply until the deadline.
    pub(crate) async fn send(
        &self,
        request: &Request<'_>,
        deadline: Instant,
    ) -> Result<Reply, EngineError> {
        loop {
            let connection = self.connection(request.patient, deadline).await?;
            match connection.send(request, deadline).await {
                Ok(reply) => return Ok(reply),
                Err(failed) => {
                    if failed.broken {
                        mark_broken(&self.state, connection.generation);
                    }
                    if !failed.not_sent || now() >= deadline {
                        return Err(failed.error);
                    }
                }
            }
        }
    }

    async fn connection(
        &self,
        patient: bool,
        deadline: Instant,
    ) -> Result<Arc<Connection>, EngineError> {
        if let Some(connection) = self.present() {
            return Ok(connection);
        }
        Box::pin(self.wait_for_reconnect(patient, deadline)).await
    }

    async fn wait_for_reconnect(
        &self,
        patient: bool,
        deadline: Instant,
    ) -> Result<Arc<Connection>, EngineError> {
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| match state {
            State::Up(_) | State::Closed => true,
            State::Reconnecting => false,
            State::Down(_) => !patient,
        });
        match self.io.timeout_at(deadline, settled).await {
            Ok(Ok(state)) => match &*state {
                State::Up(connection) => Ok(connection.clone()),
                State::Down(error) => Err(error.clone()),
                _ => Err(EngineError::new(
                    EngineErrorKind::NotConnected,
                    "the connection is closed",
                )),
            },
            _ => Err(EngineError::new(
                EngineErrorKind::NotConnected,
                "reconnecting to the server",
            )),
        }
    }
}

/// Marks the connection broken, so that it is replaced, unless it has been already.
fn mark_broken(state: &watch::Sender<State>, generation: u64) {
    state.send_if_modified(|state| match state {
        State::Up(connection) if connection.generation == generation => {
            *state = State::Reconnecting;
            true
        }
        _ => false,
    });
}

/// Returns a callback for the end of a connection.
fn on_disconnect(state: &Weak<watch::Sender<State>>) -> impl Fn(u64) + Send + Sync + 'static {
    let state = state.clone();
    move |generation| {
        if let Some(state) = state.upgrade() {
            mark_broken(&state, generation);
        }
    }
}

impl Drop for ReconnectingConnection {
    fn drop(&mut self) {
        self.state.send_replace(State::Closed);
    }
}

/// The timeout of the first attempt that no caller awaits, which doubles with each further one: an attempt that
/// is never answered must not cost short leases all their time.
const MIN_TIMEOUT: Duration = Duration::from_millis(250);

/// Makes a connection, and a new one whenever the present one is broken.
async fn reconnect_loop(
    connector: &mut Connector,
    state: &Weak<watch::Sender<State>>,
    changes: &mut watch::Receiver<State>,
    first: &mut Option<oneshot::Sender<Result<(), EngineError>>>,
) {
    let (server, purpose) = (connector.discovery.clone(), connector.purpose());
    let mut log = trace::Connection::default();
    while wait_until_broken(state, changes).await {
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(400));
        let mut timeout = MIN_TIMEOUT;
        loop {
            // The caller bounds an attempt that it awaits.
            let limit = match first {
                Some(_) => Duration::MAX,
                None => timeout,
            };
            let connecting = connector.connect_within(limit, on_disconnect(state));
            let connected = connecting.await;
            if first.is_none() {
                timeout = timeout.saturating_mul(2);
            }
            let outcome = connected.as_ref().map(drop).map_err(EngineError::clone);
            let next = match connected {
                Ok(connection) => State::Up(Arc::new(connection)),
                // A server that rejects the password now may accept it later.
                Err(error) => State::Down(EngineError {
                    kind: EngineErrorKind::NotConnected,
                    ..error
                }),
            };
            let Some(state) = state.upgrade() else {
                return;
            };
            let open = state.send_if_modified(|state| {
                let open = !matches!(state, State::Closed);
                if open {
                    *state = next;
                }
                open
            });
            match &outcome {
                Ok(()) => log.made(&server, purpose),
                // The caller reports the first one.
                Err(error) if first.is_none() => log.failed(&server, purpose, error),
                Err(_) => {}
            }
            let connected = outcome.is_ok();
            if let Some(first) = first.take() {
                let _ = first.send(outcome);
            }
            if connected || !open {
                break;
            }
            drop(state);
            tokio::time::sleep(backoff.pause()).await;
            if changes.has_changed().is_err() {
                return;
            }
        }
    }
}

/// Waits until the connection is broken, or its endpoint stale. Returns `false` if no new one is needed.
async fn wait_until_broken(
    state: &Weak<watch::Sender<State>>,
    changes: &mut watch::Receiver<State>,
) -> bool {
    let up = match &*changes.borrow() {
        State::Up(connection) => Some(connection.clone()),
        _ => None,
    };
    let mut broken = pin!(async {
        let broken = changes.wait_for(|state| !matches!(state, State::Up(_)));
        broken
            .await
            .is_ok_and(|state| !matches!(&*state, State::Closed))
    });
    let Some(connection) = up else {
        return broken.await;
    };
    let mut ended = pin!(connection.ended());
    let broken = poll_fn(|context| match ended.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => broken.as_mut().poll(context).map(Some),
    });
    let broken = connection.endpoint.until_stale(broken).await.flatten();
    // It may be that only its requests were refused.
    connection.end();
    broken.unwrap_or_else(|| {
        if let Some(state) = state.upgrade() {
            mark_broken(&state, connection.generation);
        }
        true
    })
}
