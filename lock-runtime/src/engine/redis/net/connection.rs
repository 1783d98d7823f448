//! One connection: made, greeted, asked, and given up when it breaks or falls silent.

use crate::engine::error::{EngineError, Fault};
use crate::engine::redis::net::batch::{Batches, Request};
use crate::engine::redis::net::driver::Driver;
use crate::engine::redis::net::socket;
use crate::engine::redis::topology::{Place, Site};
use crate::engine::timeouts::Timeouts;
use crate::util::io_thread::{Io, after, instant, since};
use crate::util::panics::catch;
use redis::aio::{MultiplexedConnection, SendError};
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, FromRedisValue, ProtocolVersion, PushInfo, PushKind,
    RedisError, RedisResult, Value,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// Driven by the runtime it was made on.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) number: u64,
    pub(crate) peer: Option<Peer>,
    pub(crate) place: Place,
    made: Instant,
    io: Io,
    way: Way,
    traffic: Arc<Traffic>,
    /// A connection on which nothing has been answered for so long is given up.
    silence: Duration,
}

#[derive(Clone)]
enum Way {
    /// Each request for itself, by the caller.
    Single(MultiplexedConnection),
    /// The same, and the caller's runtime drives it.
    Driven(MultiplexedConnection, Arc<Driver>),
    Batched(Arc<Batches>),
}

#[derive(Default)]
struct Traffic {
    /// Since when a request has been out without any answer coming in.
    waiting_since: Mutex<Option<Instant>>,
}

/// Why a question brought no answer.
pub(crate) struct Failure {
    pub(crate) error: EngineError,
    /// The connection is of no more use.
    pub(crate) broken: bool,
}

const OVERTAKEN: &str = "the server is not the master any more";

impl Connection {
    /// Sends a request and waits for its answer until then.
    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        request: impl Into<Request>,
        until: Instant,
    ) -> Result<T, Failure> {
        if self.place.is_left() {
            return Err(Failure {
                error: EngineError::new(Fault::Down, OVERTAKEN),
                broken: true,
            });
        }
        self.traffic.sent();
        let answer = self.io.timeout_at(until, self.way.send(request.into()));
        let answer = answer.await.map(|answer| answer.and_then(read::<T>));
        let (error, broken) = match answer {
            // A master of old knows nothing of the locks that the new one grants.
            Ok(_) if self.place.is_left() => (EngineError::new(Fault::Unanswered, OVERTAKEN), true),
            Ok(Ok(answer)) => {
                self.traffic.answered();
                return Ok(answer);
            }
            Ok(Err(error)) if is_broken(&error) => {
                (EngineError::new(Fault::Unanswered, error), true)
            }
            Ok(Err(error)) => {
                self.traffic.answered();
                // Not at once each time, where it leads to the same server again.
                let replica = is_replica(&error) && since(self.made) > Duration::from_millis(500);
                (told(fault(&error), error), replica)
            }
            Err(_) => {
                let words = "no answer from the server in time";
                let stalled = self.driver().is_some_and(|driver| driver.is_stalled());
                let silent = !stalled && self.traffic.silent_for() >= self.silence;
                (EngineError::new(Fault::Unanswered, words), silent)
            }
        };
        Err(Failure { error, broken })
    }
}

impl Connection {
    /// What moves it, if that is not the I/O thread.
    pub(crate) fn driver(&self) -> Option<&Arc<Driver>> {
        match &self.way {
            Way::Driven(_, driver) => Some(driver),
            _ => None,
        }
    }
}

impl Way {
    async fn send(&self, request: Request) -> RedisResult<Value> {
        match self {
            // Boxed: a request that goes out with others has no use for the room.
            Way::Single(redis) => Box::pin(redis.clone().send_packed_command(&request.command))
                .await?
                .extract_error(),
            Way::Driven(redis, driver) => {
                let mut redis = redis.clone();
                let sent = Box::pin(redis.send_packed_command(&request.command));
                driver.follow(sent).await?.extract_error()
            }
            Way::Batched(batches) => match batches.hand_in(request).await {
                Ok(answer) => answer,
                Err(_) => Err((ErrorKind::Io, "the connection has ended").into()),
            },
        }
    }
}

fn read<T: FromRedisValue>(value: Value) -> RedisResult<T> {
    T::from_redis_value(value).map_err(RedisError::from)
}

impl Traffic {
    fn sent(&self) {
        self.waiting_since().get_or_insert_with(instant);
    }

    fn answered(&self) {
        *self.waiting_since() = None;
    }

    fn silent_for(&self) -> Duration {
        self.waiting_since().map_or(Duration::ZERO, since)
    }

    fn waiting_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.waiting_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

type Message = Arc<dyn Fn(&[Value]) + Send + Sync>;

/// Who is given what comes in on a connection without having been asked for.
#[derive(Clone)]
pub(crate) struct Subscriber {
    pub(crate) message: Message,
    /// Called for every new connection, when the greeting has been answered.
    pub(crate) connected: Arc<dyn Fn() + Send + Sync>,
}

/// Makes connections, one after the other.
#[derive(Clone)]
pub(crate) struct Dialer {
    pub(crate) io: Io,
    pub(crate) site: Site,
    pub(crate) timeouts: Timeouts,
    /// What must be carried out before a connection is of use.
    pub(crate) greeting: Vec<Cmd>,
    /// What the server may refuse.
    pub(crate) optional: Vec<Cmd>,
    pub(crate) subscriber: Option<Subscriber>,
    pub(crate) sending: Sending,
    pub(crate) dialled: u64,
    /// What the server calls the last connection.
    pub(crate) last: Option<Peer>,
}

/// How requests of many callers are sent.
#[derive(Clone)]
pub(crate) enum Sending {
    /// Each for itself.
    Single,
    /// The same, and that runtime drives the connection.
    Driven(Handle),
    /// Those together that have come in meanwhile.
    Batched,
    /// The same, with this command at the end if a request is to be acknowledged.
    Closing(Cmd),
}

/// A connection as the server knows it.
#[derive(Clone)]
pub(crate) struct Peer {
    id: String,
    address: String,
}

impl Dialer {
    /// What the connections are for, in words.
    pub(crate) fn carries(&self) -> &'static str {
        match (&self.subscriber, &self.sending) {
            (Some(_), _) => "messages",
            (None, Sending::Closing(_)) => "requests that replicas acknowledge",
            (None, _) => "requests",
        }
    }

    /// Makes the next connection. `gone` is told when it ends, if there is a subscriber.
    pub(crate) async fn dial(
        &mut self,
        gone: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<Connection, EngineError> {
        let (io, patience) = (self.io, self.timeouts.connect);
        let site = self.site.clone();
        let dialled = io.timeout_at(after(patience), async {
            let place = site.place().await?;
            let dialled = place.while_there(self.dial_and_greet(&place, gone)).await;
            dialled.unwrap_or_else(|| Err(EngineError::new(Fault::Down, OVERTAKEN)))
        });
        let dialled = dialled.await.unwrap_or_else(|_| {
            let words = format!("no answer within {patience:?}");
            Err(EngineError::new(Fault::Down, words))
        });
        if dialled.is_err() {
            site.doubt();
        }
        dialled
    }

    async fn dial_and_greet(
        &mut self,
        place: &Place,
        gone: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<Connection, EngineError> {
        // Every request has a bound of its own, so the connection sets none.
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None);
        self.dialled += 1;
        if let Some(subscriber) = &self.subscriber {
            let (message, number) = (subscriber.message.clone(), self.dialled);
            config = config.set_push_sender(move |push: PushInfo| {
                match push.kind {
                    PushKind::Message => {
                        let _ = catch(|| message(&push.data));
                    }
                    PushKind::Disconnection => gone(number),
                    _ => {}
                }
                Ok::<(), SendError>(())
            });
        }
        let client = match &self.subscriber {
            Some(_) => &place.target.speaking(ProtocolVersion::RESP3).client,
            None => &place.target.client,
        };
        let (mut redis, driver) = match &self.sending {
            Sending::Driven(runtime) => socket::connect(&place.target, runtime, config)
                .await
                .map(|(redis, driver)| (redis, Some(Arc::new(driver)))),
            _ => client
                .get_multiplexed_async_connection_with_config(&config)
                .await
                .map(|redis| (redis, None)),
        }
        .map_err(not_let_in)?;
        if place.is_named() {
            let role: Vec<Value> =
                redis::cmd("ROLE")
                    .query_async(&mut redis)
                    .await
                    .map_err(|error| match error.code() {
                        Some("NOPERM") => EngineError::new(Fault::Refused, error),
                        _ => not_let_in(error),
                    })?;
            if role.first() != Some(&Value::BulkString(b"master".to_vec())) {
                let words = "the server that the Sentinels name is not the master";
                return Err(EngineError::new(Fault::Down, words));
            }
        }
        // What is still on its way on the last connection must not be carried out after what will be
        // sent on this one: a late acquisition would hold the lock for nobody.
        if let Some(last) = &self.last {
            unless_unknown(last.kill().exec_async(&mut redis).await)?;
        }
        let description: Result<String, _> = redis::cmd("CLIENT")
            .arg("INFO")
            .query_async(&mut redis)
            .await;
        let description = unless_unknown(description)?;
        self.last = description.as_deref().and_then(Peer::parse);
        for command in &self.greeting {
            command.exec_async(&mut redis).await.map_err(not_let_in)?;
        }
        for command in &self.optional {
            match command.exec_async(&mut redis).await {
                Err(error) if is_broken(&error) || is_refusal(&error) => {
                    return Err(not_let_in(error));
                }
                // A server that won't load scripts ahead is sent their source when they are called.
                _ => {}
            }
        }
        if let Some(subscriber) = &self.subscriber {
            (subscriber.connected)();
        }
        Ok(Connection {
            number: self.dialled,
            peer: self.last.clone(),
            place: place.clone(),
            made: instant(),
            io: self.io,
            way: match (&self.sending, driver) {
                (_, Some(driver)) => Way::Driven(redis, driver),
                (Sending::Single | Sending::Driven(_), None) => Way::Single(redis),
                (Sending::Batched, None) => Way::Batched(Arc::new(Batches::start(redis, None))),
                (Sending::Closing(closing), None) => {
                    let batches = Batches::start(redis, Some(closing.clone()));
                    Way::Batched(Arc::new(batches))
                }
            },
            traffic: Arc::default(),
            silence: self.timeouts.command,
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
    pub(crate) fn kill(&self) -> Cmd {
        let mut command = redis::cmd("CLIENT");
        command.arg("KILL").arg("ID").arg(&self.id);
        command.arg("ADDR").arg(&self.address);
        command
    }
}

/// The answer to what a server need not know, nor the user be permitted. That it is refused for now is an
/// error.
fn unless_unknown<T>(answer: RedisResult<T>) -> Result<Option<T>, EngineError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if !is_broken(&error) && fault(&error) == Fault::Refused => Ok(None),
        Err(error) => Err(not_let_in(error)),
    }
}

/// Why there is no connection.
fn not_let_in(error: RedisError) -> EngineError {
    if is_refusal(&error) {
        EngineError::new(Fault::Refused, error)
    } else if error.kind() == ErrorKind::Parse {
        let words = "what answers there does not speak the Redis protocol";
        EngineError::new(Fault::Down, words)
    } else {
        told(Fault::Down, error)
    }
}

/// With words of our own, should the server have found none.
fn told(fault: Fault, error: RedisError) -> EngineError {
    let speaks = |words: &str| !words.trim().is_empty();
    if error.code().is_none_or(speaks) || error.detail().is_some_and(speaks) {
        EngineError::new(fault, error)
    } else {
        EngineError::new(fault, "the server answered an error that has no words")
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
    ) || matches!(error.code(), Some("NOAUTH" | "WRONGPASS"))
        || error.to_string().contains("refused to switch database")
}

/// Whether it is a replica that says so, and may have been a master before.
fn is_replica(error: &RedisError) -> bool {
    matches!(code(error), Some("MASTERDOWN" | "READONLY"))
}

fn fault(error: &RedisError) -> Fault {
    match code(error) {
        Some(
            "BUSY" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "MISCONF" | "NOREPLICAS"
            | "NOSCRIPT" | "NOTBUSY" | "OOM" | "READONLY" | "TRYAGAIN",
        ) => Fault::Hindered,
        _ => Fault::Refused,
    }
}

/// What Redis 6 wraps where a command fails within a script, too: `ERR Error running script (call to
/// f_…): @user_script:4: @user_script: 4: -MISCONF Redis is configured …`.
fn code(error: &RedisError) -> Option<&str> {
    let within = || {
        let detail = error.detail()?.strip_prefix("Error running script")?;
        let (_, inner) = detail.split_once(": -")?;
        inner.split_whitespace().next()
    };
    within().or_else(|| error.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(error: &str) -> String {
        let value = redis::parse_redis_value(format!("-{error}\r\n").as_bytes()).unwrap();
        told(Fault::Down, value.extract_error().unwrap_err()).to_string()
    }

    #[test]
    fn what_redis_6_says_of_a_command_within_a_script_passes_too() {
        let read = |error: &str| {
            let value = redis::parse_redis_value(format!("-{error}\r\n").as_bytes()).unwrap();
            fault(&value.extract_error().unwrap_err())
        };
        let wrapped = |error: &str| {
            let script = "Error running script (call to f_0123456789abcdef)";
            read(&format!(
                "ERR {script}: @user_script:4: @user_script: 4: -{error}"
            ))
        };
        for passes in ["MISCONF Errors writing to the AOF file", "READONLY replica"] {
            assert_eq!(read(passes), Fault::Hindered);
            assert_eq!(wrapped(passes), Fault::Hindered);
        }
        assert_eq!(wrapped("WRONGTYPE Operation against a key"), Fault::Refused);
        assert_eq!(read("ERR something else"), Fault::Refused);
    }

    #[test]
    fn an_error_without_words_is_told_too() {
        assert!(words("").contains("no words"));
        assert!(words(" ").contains("no words"));
        assert!(words("OOM command not allowed").contains("command not allowed"));
        assert!(words("ERR").len() > 3);
    }
}
