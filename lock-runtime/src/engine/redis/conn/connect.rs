//! Makes connections: it finds the server, authenticates, and sets the connection up.

use crate::credentials::Login;
use crate::engine::common::upkeep::Connect;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::EventHandler;
use crate::engine::redis::conn::client_id::{BrokenClients, ClientId};
use crate::engine::redis::conn::connection::{Connection, MASTER_CHANGED, Transport};
use crate::engine::redis::conn::direct::{Direct, End};
use crate::engine::redis::conn::driver::Driver;
use crate::engine::redis::conn::endpoint::{Discovery, Endpoint};
use crate::engine::redis::conn::handshake::Handshake;
use crate::engine::redis::conn::pipeline::Pipeline;
use crate::engine::redis::wire::encode::{Encoding, Output};
use crate::engine::redis::wire::error::{
    connect_error, is_auth_error, is_broken, is_general, ok_unless_rejected,
};
use crate::engine::timeouts::Timeouts;
use crate::util::io_thread::IoThread;
use crate::util::join_all::join_all;
use crate::util::panics::catch;
use redis::aio::{MultiplexedConnection, SendError};
use redis::{
    AsyncConnectionConfig, Cmd, FromRedisValue, ProtocolVersion, PushInfo, PushKind, Value,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// Makes connections, one after the other.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) io: IoThread,
    pub(crate) discovery: Arc<dyn Discovery>,
    pub(crate) timeouts: Timeouts,
    /// Called when there is no connection for some time.
    pub(crate) handler: EventHandler,
    /// Commands that must succeed before a connection is used.
    pub(crate) setup_commands: Vec<Cmd>,
    /// Commands that the server may reject.
    pub(crate) optional_commands: Vec<Cmd>,
    pub(crate) push_handler: Option<PushHandler>,
    pub(crate) send_mode: SendMode,
    /// The connection that was made last.
    pub(crate) previous_client: Option<ClientId>,
    /// All broken connections to the same server.
    pub(crate) broken: Arc<BrokenClients>,
}

type MessageHandler = Arc<dyn Fn(&[Value]) + Send + Sync>;

/// Handles messages that arrive without a request.
#[derive(Clone)]
pub(crate) struct PushHandler {
    pub(crate) message: MessageHandler,
    /// Called for every new connection, after its setup commands: with `true` if the server has accepted the optional
    /// ones, too.
    pub(crate) connected: Arc<dyn Fn(bool) + Send + Sync>,
}

/// The way requests are sent.
#[derive(Clone)]
pub(crate) enum SendMode {
    /// Through the redis crate.
    Direct,
    Pipelined(Pipelining),
}

/// How the requests of many callers are pipelined.
#[derive(Clone)]
pub(crate) struct Pipelining {
    pub(crate) encoding: Arc<Encoding>,
    /// The runtime that drives the connection; `None` is that of the I/O thread.
    pub(crate) runtime: Option<Handle>,
    /// Follows the requests of a write if any of them awaits replicas.
    pub(crate) wait: Option<Cmd>,
}

impl Connector {
    /// Makes connections of the given kind to a server.
    pub(crate) fn new(
        io: IoThread,
        discovery: Arc<dyn Discovery>,
        timeouts: Timeouts,
        send_mode: SendMode,
    ) -> Connector {
        Connector {
            io,
            discovery,
            timeouts,
            handler: Arc::new(|_| {}),
            setup_commands: Vec::new(),
            optional_commands: Vec::new(),
            push_handler: None,
            send_mode,
            previous_client: None,
            broken: Arc::default(),
        }
    }

    /// Returns the purpose of the connections, in words.
    pub(crate) fn purpose(&self) -> &'static str {
        match (&self.push_handler, &self.send_mode) {
            (Some(_), _) => "messages",
            (None, SendMode::Pipelined(Pipelining { wait: Some(_), .. })) => {
                "requests that replicas acknowledge"
            }
            (None, _) => "requests",
        }
    }

    async fn connect_and_set_up(
        &mut self,
        endpoint: &Endpoint,
        login: Option<Login>,
    ) -> Result<Connection, EngineError> {
        let ended = End::default();
        let mut handshake = self.begin(endpoint, login, ended.clone()).await?;
        if endpoint.requires_master_role() {
            require_master(&mut handshake.redis).await?;
        }
        let accepted = self.set_up(&handshake.redis).await?;
        if let Some(handler) = &self.push_handler {
            (handler.connected)(accepted);
        }
        let transport = self.transport(handshake, ended).await?;
        Ok(Connection::new(endpoint.clone(), self.io, transport))
    }

    async fn transport(&self, handshake: Handshake, ended: End) -> Result<Transport, EngineError> {
        let timeouts = self.timeouts.clone();
        let SendMode::Pipelined(pipelining) = &self.send_mode else {
            let direct = Direct::new(self.io, handshake, timeouts, ended);
            return Ok(Transport::Direct(Box::new(direct)));
        };
        let stream = handshake.take_back().await.ok_or_else(|| {
            EngineError::new(EngineErrorKind::NotConnected, "the connection has ended")
        })?;
        let wait = pipelining.wait.as_ref().map(Cmd::get_packed_command);
        let output = Output::new(pipelining.encoding.clone(), wait.unwrap_or_default());
        let pipeline = Arc::<Pipeline>::default();
        let driver = Driver::start(
            &self.runtime(),
            pipeline.clone(),
            (stream, output),
            timeouts,
            (self.previous_client.clone(), self.broken.clone()),
        );
        Ok(Transport::Pipelined(pipeline, driver))
    }

    /// Returns the runtime that will drive the connection.
    fn runtime(&self) -> Handle {
        let other = match &self.send_mode {
            SendMode::Pipelined(pipelining) => pipelining.runtime.clone(),
            SendMode::Direct => None,
        };
        other.unwrap_or_else(Handle::current)
    }

    /// Connects and logs in. `ended` is set when the redis crate reports the end.
    async fn begin(
        &self,
        endpoint: &Endpoint,
        login: Option<Login>,
        ended: End,
    ) -> Result<Handshake, EngineError> {
        let mut config = AsyncConnectionConfig::new();
        let mut greeting = endpoint.address.greeting(login);
        if let Some(handler) = &self.push_handler {
            let message = handler.message.clone();
            greeting = greeting.set_protocol(ProtocolVersion::RESP3);
            config = config.set_push_sender(move |push: PushInfo| {
                match push.kind {
                    PushKind::Message => {
                        let _ = catch(|| message(&push.data));
                    }
                    PushKind::Disconnection => ended.set(),
                    _ => {}
                }
                Ok::<(), SendError>(())
            });
        }
        let (address, runtime) = (&endpoint.address, self.runtime());
        let begun = Handshake::begin(address, &greeting, &runtime, config);
        begun.await.map_err(|error| match &self.push_handler {
            Some(_) if is_general(&error) => {
                let words = format!(
                    "the server does not support RESP3, which grants require ({error}); use Redis 6 or newer, and no \
                     proxy that knows only older protocols"
                );
                EngineError::new(EngineErrorKind::Rejected, words)
            }
            _ => connect_error(error),
        })
    }

    /// Sends all commands that set the connection up at once, so that it takes one round trip. Returns `true` if the server
    /// has accepted the optional ones, too.
    async fn set_up(&mut self, redis: &MultiplexedConnection) -> Result<bool, EngineError> {
        // Requests that are still on their way on the previous connection must not be carried out after those
        // on the new one: a late acquisition would hold the lock without a holder.
        let kill = self.previous_client.as_ref().map(ClientId::kill);
        let mut identify = redis::cmd("CLIENT");
        identify.arg("INFO");
        let commands = (kill.iter().map(|command| (Purpose::KillPrevious, command)))
            .chain([(Purpose::Identify, &identify)])
            .chain(self.setup_commands.iter().map(|it| (Purpose::Required, it)))
            .chain(
                self.optional_commands
                    .iter()
                    .map(|it| (Purpose::Optional, it)),
            );
        let replies = join_all(commands.map(|(purpose, command)| {
            let mut redis = redis.clone();
            async move { (purpose, command.query_async::<Value>(&mut redis).await) }
        }));
        let mut accepted = true;
        for (purpose, reply) in replies.await {
            match (purpose, reply) {
                (Purpose::KillPrevious, reply) => {
                    ok_unless_rejected(reply)?;
                    if let Some(previous) = &self.previous_client {
                        self.broken.remove(previous);
                    }
                }
                (Purpose::Identify, reply) => {
                    let description = ok_unless_rejected(reply)?.map(String::from_redis_value);
                    let description = description.and_then(Result::ok);
                    self.previous_client = description.as_deref().and_then(ClientId::parse);
                }
                (Purpose::Required, reply) => drop(reply.map_err(connect_error)?),
                (Purpose::Optional, Err(error)) if is_broken(&error) || is_auth_error(&error) => {
                    return Err(connect_error(error));
                }
                // A server that does not load scripts ahead gets their source when they are called.
                (Purpose::Optional, reply) => accepted &= reply.is_ok(),
            }
        }
        Ok(accepted)
    }
}

impl Connect for Connector {
    type Connection = Connection;

    async fn connect(&mut self, timeout: Duration) -> Result<Arc<Connection>, EngineError> {
        let (io, discovery) = (self.io, self.discovery.clone());
        let login = discovery.credentials();
        let login = login.get(io, self.timeouts.credentials_by()).await?;
        let connected = io.timeout_at(self.timeouts.end_of_try(timeout), async {
            let endpoint = discovery.endpoint().await?;
            let connecting = self.connect_and_set_up(&endpoint, login);
            let connected = endpoint.until_stale(connecting).await;
            connected.unwrap_or_else(|| {
                Err(EngineError::new(
                    EngineErrorKind::NotConnected,
                    MASTER_CHANGED,
                ))
            })
        });
        let connected = connected.await.unwrap_or_else(|_| {
            let words = format!("no reply within {timeout:?}");
            Err(EngineError::new(EngineErrorKind::NotConnected, words))
        });
        if connected.is_err() {
            discovery.connection_failed();
        }
        connected.map(Arc::new)
    }
}

/// The purpose of a command that sets a connection up.
enum Purpose {
    KillPrevious,
    Identify,
    Required,
    Optional,
}

/// Fails unless the server confirms that it is a master.
async fn require_master(redis: &mut MultiplexedConnection) -> Result<(), EngineError> {
    let role: Vec<Value> =
        redis::cmd("ROLE")
            .query_async(redis)
            .await
            .map_err(|error| match error.code() {
                Some("NOPERM") => EngineError::new(EngineErrorKind::Rejected, error),
                _ => connect_error(error),
            })?;
    match role.first() {
        Some(Value::BulkString(role)) if role == b"master" => Ok(()),
        _ => {
            let words = "the server that the Sentinels name is not the master";
            Err(EngineError::new(EngineErrorKind::NotConnected, words))
        }
    }
}
