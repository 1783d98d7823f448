//! The present connection to the cluster. A task makes a new one, to the next member, when it breaks.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::etcd::connection::Connection;
use crate::engine::etcd::connector::Connector;
use crate::engine::etcd::failure::Failure;
use crate::engine::timeouts::NO_REPLY;
use crate::engine::url::format_address;
use crate::trace;
use crate::util::backoff::{Backoff, fraction};
use crate::util::io_thread::IoThread;
use crate::util::time::{deadline_in, sleep_until};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The timeout of the first attempt to replace a connection, which doubles with each further round: an attempt that
/// is never answered must not cost short leases all their time.
const MIN_TIMEOUT: Duration = Duration::from_millis(500);

pub(super) struct Client {
    pub(super) io: IoThread,
    pub(super) connector: Arc<Connector>,
    state: Arc<watch::Sender<State>>,
}

#[derive(Clone)]
enum State {
    Up(Arc<Connection>),
    /// The connection broke, and the first round of attempts to make a new one is under way.
    Connecting,
    /// The last round failed with this error; more follow.
    Down(EngineError),
    /// The engine is gone.
    Closed,
}

impl Client {
    /// Connects to the first member that answers, and keeps a connection from then on. `on_connect` is called after
    /// each reconnect.
    pub(super) async fn connect(
        connector: Connector,
        on_connect: impl Fn() + Send + Sync + 'static,
    ) -> Result<Client, EngineError> {
        let connector = Arc::new(connector);
        let io = connector.io;
        let (state, mut changes) = watch::channel(State::Connecting);
        let state = Arc::new(state);
        let client = Client {
            io,
            connector: connector.clone(),
            state: state.clone(),
        };
        io.spawn_detached(keep_connected(connector, state, on_connect));
        let settled = changes.wait_for(|state| !matches!(state, State::Connecting));
        match settled.await.as_deref() {
            Ok(State::Up(_)) => {}
            Ok(State::Down(error)) => return Err(error.clone()),
            _ => return Err(closed()),
        }
        Ok(client)
    }

    /// Returns the present connection, if there is one.
    pub(super) fn present(&self) -> Option<Arc<Connection>> {
        match &*self.state.borrow() {
            State::Up(connection) if !connection.has_ended() => Some(connection.clone()),
            _ => None,
        }
    }

    /// Waits for a connection as long as one may be made soon.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>, EngineError> {
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| match state {
            State::Up(connection) => !connection.has_ended(),
            State::Connecting => false,
            State::Down(_) | State::Closed => true,
        });
        match settled.await.as_deref() {
            Ok(State::Up(connection)) => Ok(connection.clone()),
            Ok(State::Down(error)) => Err(error.clone()),
            _ => Err(closed()),
        }
    }

    /// Waits until there is a connection, or the engine is gone.
    pub(super) async fn until_connected(&self) {
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| match state {
            State::Up(connection) => !connection.has_ended(),
            State::Connecting | State::Down(_) => false,
            State::Closed => true,
        });
        let _ = settled.await;
    }

    /// Runs a request on the I/O thread, where it continues if the caller leaves. A request without an answer by the
    /// deadline may have been executed.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        deadline: Instant,
        request: impl Future<Output = Result<T, EngineError>> + Send + 'static,
    ) -> Result<T, EngineError> {
        let unanswered = |words| Err(EngineError::new(EngineErrorKind::Indeterminate, words));
        let task = self.io.spawn(request);
        match self.io.timeout_at(deadline, task).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => unanswered("the request panicked"),
            Err(_) => unanswered(NO_REPLY),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.state.send_replace(State::Closed);
    }
}

fn closed() -> EngineError {
    EngineError::new(EngineErrorKind::NotConnected, "the connection is closed")
}

async fn keep_connected(
    connector: Arc<Connector>,
    state: Arc<watch::Sender<State>>,
    on_connect: impl Fn(),
) {
    let hosts = &connector.endpoints.hosts;
    let count = u32::try_from(hosts.len()).unwrap_or(u32::MAX).max(1);
    // Processes spread over the members.
    let spread = fraction(Duration::from_secs(count.into()));
    let mut next = usize::try_from(spread.as_secs()).unwrap_or(0);
    let mut is_first = true;
    let mut log = trace::Connection::default();
    loop {
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(200));
        let mut timeout = MIN_TIMEOUT.min(connector.timeouts.connect);
        let connection = 'connected: loop {
            let mut failures: Vec<(String, Failure)> = Vec::new();
            for left in (1..=count).rev() {
                let time = match is_first {
                    // One that hangs hides no other.
                    true => connector.timeouts.silence() / left,
                    false => timeout,
                };
                let host = &hosts[next % hosts.len()];
                if matches!(*state.borrow(), State::Closed) {
                    return;
                }
                match connector.connect(host, deadline_in(time)).await {
                    Ok(connection) => break 'connected connection,
                    Err(failure) => failures.push((format_address(host), failure)),
                }
                next += 1;
            }
            let error = summary(failures, is_first);
            if !is_first {
                log.failed(&connector.endpoints, "requests", &error);
            }
            if !change(&state, State::Down(error)) {
                return;
            }
            is_first = false;
            timeout = (timeout * 2).min(connector.timeouts.connect);
            sleep_until(deadline_in(backoff.pause())).await;
        };
        if !change(&state, State::Up(connection.clone())) {
            return;
        }
        is_first = false;
        log.made(&connector.endpoints, "requests");
        on_connect();
        let mut changes = state.subscribe();
        let closed = changes.wait_for(|state| matches!(state, State::Closed));
        if connection.until_ended(closed).await.is_some() {
            return connection.end();
        }
        if !change(&state, State::Connecting) {
            return;
        }
        next += 1;
    }
}

/// Changes the state unless the engine is gone. Returns `false` if it is.
fn change(state: &watch::Sender<State>, to: State) -> bool {
    state.send_if_modified(|state| {
        let open = !matches!(state, State::Closed);
        if open {
            *state = to;
        }
        open
    })
}

/// Returns what the members answered. Only the first attempt can be rejected: a server that rejects a password now may
/// accept it later.
fn summary(failures: Vec<(String, Failure)>, is_first: bool) -> EngineError {
    let mut words = Vec::new();
    let mut rejected = !failures.is_empty();
    for (host, failure) in failures {
        let error = failure.into_engine_error();
        rejected &= error.kind == EngineErrorKind::Rejected;
        words.push(format!("{host}: {error}"));
    }
    let kind = match rejected && is_first {
        true => EngineErrorKind::Rejected,
        false => EngineErrorKind::NotConnected,
    };
    EngineError::new(kind, words.join("; "))
}
