//! A connection that comes back.
//!
//! The driver of `redis::aio::MultiplexedConnection` lives on the I/O thread. A supervisor beside it
//! makes a new connection when the present one breaks or falls silent. While there is none, requests
//! fail at once; nothing is ever sent twice.

use super::target::Target;
use super::{EngineError, Fault, Timeouts};
use crate::backoff::Backoff;
use crate::io::{Io, after};
use redis::aio::{MultiplexedConnection, SendError};
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, FromRedisValue, PushInfo, PushKind, RedisError,
    ServerErrorKind, Value,
};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) struct Link {
    io: Io,
    silence: Duration,
    state: Arc<watch::Sender<State>>,
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

#[derive(Clone)]
struct Connection {
    number: u64,
    redis: MultiplexedConnection,
    /// Since when a request has been out on it without any answer coming in.
    waiting_since: Arc<Mutex<Option<Instant>>>,
}

impl Link {
    /// Connects, sends the greeting, and keeps the connection alive from then on.
    pub(crate) async fn connect(
        io: Io,
        target: Target,
        timeouts: Timeouts,
        greeting: Vec<Cmd>,
        subscriber: Option<Subscriber>,
    ) -> Result<Link, EngineError> {
        let (state, changes) = watch::channel(State::Reconnecting);
        let state = Arc::new(state);
        let mut dialer = Dialer {
            target,
            timeouts,
            greeting,
            subscriber,
            state: Arc::downgrade(&state),
            dialled: 0,
            last: None,
        };
        let first = io.spawn(async move {
            let first = dialer.dial().await;
            (first, dialer)
        });
        let Ok((first, dialer)) = first.await else {
            return Err(EngineError::new(Fault::Down, "the I/O thread has ended"));
        };
        // A connection may break before it is known here.
        let first = State::Up(first?);
        state.send_if_modified(|state| match state {
            State::Reconnecting => {
                *state = first;
                true
            }
            _ => false,
        });
        io.spawn(supervise(dialer, changes));
        Ok(Link {
            io,
            silence: timeouts.command,
            state,
        })
    }

    /// Waits until there is a connection.
    pub(crate) async fn ready(&self, until: Instant) -> Result<(), EngineError> {
        self.connection(until).await.map(drop)
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

    /// Sends a command and waits for its answer until then.
    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        command: &Cmd,
        until: Instant,
    ) -> Result<T, EngineError> {
        let mut connection = self.connection(until).await?;
        connection.asks();
        let answer = command.query_async(&mut connection.redis);
        match self.io.timeout_at(until, answer).await {
            Ok(Ok(answer)) => {
                connection.answers();
                Ok(answer)
            }
            Ok(Err(error)) if is_broken(&error) => {
                self.give_up(&connection);
                Err(EngineError::new(Fault::Unanswered, error))
            }
            Ok(Err(error)) => {
                connection.answers();
                Err(EngineError::new(fault(&error), error))
            }
            Err(_) => {
                if connection.silent_for() >= self.silence {
                    self.give_up(&connection);
                }
                let words = "no answer from the server in time";
                Err(EngineError::new(Fault::Unanswered, words))
            }
        }
    }

    async fn connection(&self, until: Instant) -> Result<Connection, EngineError> {
        if let State::Up(connection) = &*self.state.borrow() {
            return Ok(connection.clone());
        }
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| !matches!(state, State::Reconnecting));
        match self.io.timeout_at(until, settled).await {
            Ok(Ok(state)) => match &*state {
                State::Up(connection) => Ok(connection.clone()),
                State::Down(error) => Err(error.clone()),
                _ => Err(EngineError::new(Fault::Down, "the connection is closed")),
            },
            _ => Err(EngineError::new(Fault::Down, "reconnecting to the server")),
        }
    }

    /// Has the connection replaced, unless it has been already.
    fn give_up(&self, broken: &Connection) {
        give_up(&self.state, broken.number);
    }
}

fn give_up(state: &watch::Sender<State>, number: u64) {
    state.send_if_modified(|state| match state {
        State::Up(connection) if connection.number == number => {
            *state = State::Reconnecting;
            true
        }
        _ => false,
    });
}

impl Drop for Link {
    fn drop(&mut self) {
        self.state.send_replace(State::Closed);
    }
}

impl Connection {
    fn waiting_since(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.waiting_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn asks(&self) {
        self.waiting_since().get_or_insert_with(Instant::now);
    }

    fn answers(&self) {
        *self.waiting_since() = None;
    }

    fn silent_for(&self) -> Duration {
        self.waiting_since()
            .map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// Makes a new connection whenever the present one has been given up.
async fn supervise(mut dialer: Dialer, mut changes: watch::Receiver<State>) {
    while broken(&mut changes).await {
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(400));
        loop {
            let next = match dialer.dial().await {
                Ok(connection) => State::Up(connection),
                // What the server refuses now, as a password, it may take later.
                Err(error) => State::Down(EngineError {
                    fault: Fault::Down,
                    ..error
                }),
            };
            let connected = matches!(next, State::Up(_));
            let Some(state) = dialer.state.upgrade() else {
                return;
            };
            let open = state.send_if_modified(|state| {
                let open = !matches!(state, State::Closed);
                if open {
                    *state = next;
                }
                open
            });
            if connected || !open {
                break;
            }
            drop(state);
            tokio::time::sleep(backoff.pause()).await;
        }
    }
}

/// Waits until the connection has been given up; false if nobody needs a new one.
async fn broken(changes: &mut watch::Receiver<State>) -> bool {
    let broken = changes
        .wait_for(|state| !matches!(state, State::Up(_)))
        .await;
    broken.is_ok_and(|state| !matches!(&*state, State::Closed))
}

type Message = Arc<dyn Fn(&[Value]) + Send + Sync>;

/// Who is given what comes in on a connection without having been asked for.
pub(crate) struct Subscriber {
    pub(crate) message: Message,
    /// Called for every new connection, when the greeting has been answered.
    pub(crate) connected: Arc<dyn Fn() + Send + Sync>,
}

struct Dialer {
    target: Target,
    timeouts: Timeouts,
    greeting: Vec<Cmd>,
    subscriber: Option<Subscriber>,
    state: Weak<watch::Sender<State>>,
    dialled: u64,
    /// What the server calls the last connection.
    last: Option<Peer>,
}

struct Peer {
    id: String,
    address: String,
}

impl Dialer {
    async fn dial(&mut self) -> Result<Connection, EngineError> {
        let patience = self.timeouts.connect;
        match tokio::time::timeout_at(after(patience), self.dial_and_greet()).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) if is_refusal(&error) => Err(EngineError::new(Fault::Refused, error)),
            Ok(Err(error)) if error.kind() == ErrorKind::Parse => Err(EngineError::new(
                Fault::Down,
                "what answers there does not speak the Redis protocol",
            )),
            Ok(Err(error)) => Err(EngineError::new(Fault::Down, error)),
            Err(_) => Err(EngineError::new(
                Fault::Down,
                format!("no answer within {patience:?}"),
            )),
        }
    }

    async fn dial_and_greet(&mut self) -> Result<Connection, RedisError> {
        // Every request has a bound of its own, so the connection sets none.
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None);
        self.dialled += 1;
        if let Some(subscriber) = &self.subscriber {
            let (state, number) = (self.state.clone(), self.dialled);
            let message = subscriber.message.clone();
            config = config.set_push_sender(move |push: PushInfo| {
                match (push.kind, state.upgrade()) {
                    (PushKind::Message, _) => message(&push.data),
                    (PushKind::Disconnection, Some(state)) => give_up(&state, number),
                    _ => {}
                }
                Ok::<(), SendError>(())
            });
        }
        let client = &self.target.client;
        let mut redis = client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        // What is still on its way on the last connection must not be carried out after what will be
        // sent on this one: a late acquisition would hold the lock for nobody.
        if let Some(last) = &self.last {
            let _ = last.kill().exec_async(&mut redis).await;
        }
        let description: Result<String, _> = redis::cmd("CLIENT")
            .arg("INFO")
            .query_async(&mut redis)
            .await;
        self.last = description.ok().as_deref().and_then(Peer::parse);
        for command in &self.greeting {
            match command.exec_async(&mut redis).await {
                Err(error) if is_broken(&error) || is_refusal(&error) => return Err(error),
                // A server that won't load scripts ahead is sent their source when they are called.
                _ => {}
            }
        }
        if let Some(subscriber) = &self.subscriber {
            (subscriber.connected)();
        }
        Ok(Connection {
            number: self.dialled,
            redis,
            waiting_since: Arc::default(),
        })
    }
}

impl Peer {
    fn parse(description: &str) -> Option<Peer> {
        let field = |name| {
            let mut fields = description.split_whitespace();
            fields
                .find_map(|field| field.strip_prefix(name))
                .map(str::to_owned)
        };
        Some(Peer {
            id: field("id=")?,
            address: field("addr=")?,
        })
    }

    /// By number and address: a server that was restarted gives the same numbers to others.
    fn kill(&self) -> Cmd {
        let mut command = redis::cmd("CLIENT");
        command.arg("KILL").arg("ID").arg(&self.id);
        command.arg("ADDR").arg(&self.address);
        command
    }
}

fn is_broken(error: &RedisError) -> bool {
    error.is_io_error() || error.is_connection_dropped() || error.kind() == ErrorKind::Parse
}

/// Whether a server doesn't let us in: a wrong password, none, or no such database.
fn is_refusal(error: &RedisError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig
    ) || error.code() == Some("NOAUTH")
}

fn fault(error: &RedisError) -> Fault {
    use ServerErrorKind::{
        BusyLoading, ClusterDown, MasterDown, NoScript, NotBusy, ReadOnly, TryAgain,
    };
    match error.kind() {
        ErrorKind::Server(
            BusyLoading | ClusterDown | MasterDown | NoScript | NotBusy | ReadOnly | TryAgain,
        ) => Fault::Hindered,
        // `BUSY` (a slow script), `NOREPLICAS`, `OOM`: they pass.
        ErrorKind::Extension
            if matches!(
                error.code(),
                Some("BUSY" | "NOREPLICAS" | "OOM" | "MISCONF")
            ) =>
        {
            Fault::Hindered
        }
        _ => Fault::Refused,
    }
}
