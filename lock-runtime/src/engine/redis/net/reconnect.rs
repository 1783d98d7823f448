//! A connection that comes back.
//!
//! The driver of `redis::aio::MultiplexedConnection` lives on the I/O thread. A supervisor beside it
//! makes a new connection when the present one breaks or falls silent. While there is none, requests
//! fail at once; nothing is ever sent twice.

use crate::engine::error::{EngineError, Fault};
use crate::engine::redis::net::batch::Request;
use crate::engine::redis::net::connection::{Connection, Dialer};
use crate::engine::redis::net::replica_ack::Acknowledged;
use crate::trace;
use crate::util::backoff::Backoff;
use crate::util::io_thread::{Io, pause};
use crate::util::panics::caught;
use redis::FromRedisValue;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

pub(crate) struct Link {
    io: Io,
    state: Arc<watch::Sender<State>>,
    acknowledged: Acknowledged,
}

#[derive(Clone)]
enum State {
    Up(Connection),
    /// The connection broke, and the first try to make a new one is under way.
    Reconnecting,
    /// So ended the last try; more follow.
    Down(EngineError),
    /// Nobody needs the link any more.
    Closed,
}

impl Link {
    /// Connects, sends the greeting, and keeps the connection alive from then on.
    pub(crate) async fn connect(io: Io, dialer: Dialer) -> Result<Link, EngineError> {
        let (link, first) = Link::open(io, dialer);
        match first.await {
            Ok(connected) => connected.map(|()| link),
            Err(_) => Err(EngineError::new(Fault::Down, "the I/O thread has ended")),
        }
    }

    /// Begins to connect, and keeps at it even if the first try fails; what came of that one is
    /// told.
    pub(crate) fn open(
        io: Io,
        mut dialer: Dialer,
    ) -> (Link, oneshot::Receiver<Result<(), EngineError>>) {
        let (state, mut changes) = watch::channel(State::Reconnecting);
        let state = Arc::new(state);
        let (first, told) = oneshot::channel();
        let acknowledged = Acknowledged::new(&dialer);
        let supervised = Arc::downgrade(&state);
        io.run(async move {
            let mut first = Some(first);
            let (dialer, changes) = (&mut dialer, &mut changes);
            while caught(supervise(dialer, &supervised, changes, &mut first))
                .await
                .is_err()
            {
                pause().await;
            }
        });
        let link = Link {
            io,
            state,
            acknowledged,
        };
        (link, told)
    }

    /// Waits until there is a connection.
    pub(crate) async fn ready(&self, until: Instant) -> Result<(), EngineError> {
        self.connection(false, until).await.map(drop)
    }

    pub(crate) fn is_up(&self) -> bool {
        matches!(&*self.state.borrow(), State::Up(_))
    }

    /// Has the present connection replaced.
    pub(crate) fn replace(&self) {
        self.state.send_if_modified(|state| {
            let up = matches!(state, State::Up(_));
            if up {
                *state = State::Reconnecting;
            }
            up
        });
    }

    /// Sends a request and waits for its answer until then.
    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        request: impl Into<Request>,
        until: Instant,
    ) -> Result<T, EngineError> {
        let request = request.into();
        let beside = self.acknowledged.by(request.replicas);
        let link = beside.as_deref().unwrap_or(self);
        let connection = link.connection(request.patient, until).await?;
        connection.ask(request, until).await.map_err(|failure| {
            if failure.broken {
                give_up(&link.state, connection.number);
            }
            failure.error
        })
    }

    async fn connection(&self, patient: bool, until: Instant) -> Result<Connection, EngineError> {
        if let State::Up(connection) = &*self.state.borrow() {
            return Ok(connection.clone());
        }
        Box::pin(self.reconnected(patient, until)).await
    }

    async fn reconnected(&self, patient: bool, until: Instant) -> Result<Connection, EngineError> {
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| match state {
            State::Up(_) | State::Closed => true,
            State::Reconnecting => false,
            State::Down(_) => !patient,
        });
        match self.io.timeout_at(until, settled).await {
            Ok(Ok(state)) => match &*state {
                State::Up(connection) => Ok(connection.clone()),
                State::Down(error) => Err(error.clone()),
                _ => Err(EngineError::new(Fault::Down, "the connection is closed")),
            },
            _ => Err(EngineError::new(Fault::Down, "reconnecting to the server")),
        }
    }
}

/// Has the connection replaced, unless it has been already.
fn give_up(state: &watch::Sender<State>, number: u64) {
    state.send_if_modified(|state| match state {
        State::Up(connection) if connection.number == number => {
            *state = State::Reconnecting;
            true
        }
        _ => false,
    });
}

/// Has a connection replaced that says itself that it has ended.
fn report(state: &Weak<watch::Sender<State>>) -> impl Fn(u64) + Send + Sync + 'static {
    let state = state.clone();
    move |number| {
        if let Some(state) = state.upgrade() {
            give_up(&state, number);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.state.send_replace(State::Closed);
    }
}

/// Makes a connection, and a new one whenever the present one has been given up.
async fn supervise(
    dialer: &mut Dialer,
    state: &Weak<watch::Sender<State>>,
    changes: &mut watch::Receiver<State>,
    first: &mut Option<oneshot::Sender<Result<(), EngineError>>>,
) {
    let (server, carries) = (dialer.site.clone(), dialer.carries());
    let mut told = trace::Connection::default();
    while broken(state, changes).await {
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(400));
        loop {
            let dialled = dialer.dial(report(state)).await;
            let outcome = dialled.as_ref().map(drop).map_err(EngineError::clone);
            let next = match dialled {
                Ok(connection) => State::Up(connection),
                // What the server refuses now, as a password, it may take later.
                Err(error) => State::Down(EngineError {
                    fault: Fault::Down,
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
                Ok(()) => told.made(&server, carries),
                // The first is told by the caller.
                Err(error) if first.is_none() => told.failed(&server, carries, error),
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

/// Waits until the connection has been given up, or the server is elsewhere; false if nobody needs a
/// new one.
async fn broken(state: &Weak<watch::Sender<State>>, changes: &mut watch::Receiver<State>) -> bool {
    let up = match &*changes.borrow() {
        State::Up(connection) => Some((connection.place.clone(), connection.number)),
        _ => None,
    };
    let broken = async {
        let broken = changes.wait_for(|state| !matches!(state, State::Up(_)));
        broken
            .await
            .is_ok_and(|state| !matches!(&*state, State::Closed))
    };
    let Some((place, number)) = up else {
        return broken.await;
    };
    if let Some(broken) = place.while_there(broken).await {
        return broken;
    }
    if let Some(state) = state.upgrade() {
        give_up(&state, number);
    }
    true
}
