//! Makes connections: it finds the server, authenticates, and sets the connection up.

use crate::credentials::Login;
use crate::engine::common::upkeep::Connect;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::EventHandler;
use crate::engine::redis::conn::batch::slab::Outcome;
use crate::engine::redis::conn::client_id::{BrokenClients, ClientId};
use crate::engine::redis::conn::connection::{Connection, MASTER_CHANGED};
use crate::engine::redis::conn::driver::Driver;
use crate::engine::redis::conn::endpoint::{Discovery, Endpoint};
use crate::engine::redis::conn::exchange::{Exchange, MessageHandler};
use crate::engine::redis::conn::login::{self, Purpose, refused};
use crate::engine::redis::conn::pipeline::Pipeline;
use crate::engine::redis::conn::request::{Content, Via};
use crate::engine::redis::conn::socket;
use crate::engine::redis::wire::encode::{Encoding, Output, command};
use crate::engine::redis::wire::error::{connect_error, is_auth_error, ok_unless_rejected};
use crate::engine::timeouts::Timeouts;
use crate::util::io_thread::IoThread;
use crate::util::join_all::join_all;
use redis::{Cmd, FromRedisValue, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// Makes connections, one after the other.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) io: IoThread,
    pub(crate) discovery: Arc<dyn Discovery>,
    pub(crate) timeouts: Timeouts,
    /// Called when there is no connection for some time.
    pub(crate) handler: EventHandler,
    /// Commands that must succeed before a connection is used. Each `SUBSCRIBE` names one channel.
    pub(crate) setup_commands: Vec<Cmd>,
    /// Commands that the server may reject.
    pub(crate) optional_commands: Vec<Cmd>,
    pub(crate) push_handler: Option<PushHandler>,
    pub(crate) encoding: Arc<Encoding>,
    /// The runtime that drives the connections; `None` is that of the I/O thread.
    pub(crate) runtime: Option<Handle>,
    /// Follows the requests of a write if any of them awaits replicas.
    pub(crate) wait: Option<Cmd>,
    /// The connection that was made last.
    pub(crate) previous_client: Option<ClientId>,
    /// All broken connections to the same server.
    pub(crate) broken: Arc<BrokenClients>,
}

/// Handles messages that arrive without a request.
#[derive(Clone)]
pub(crate) struct PushHandler {
    pub(crate) message: MessageHandler,
    /// Called for every new connection, after its setup commands: with `true` if the server has accepted the
    /// optional ones, too.
    pub(crate) connected: Arc<dyn Fn(bool) + Send + Sync>,
}

impl Connector {
    /// Makes connections to a server.
    pub(crate) fn new(
        io: IoThread,
        discovery: Arc<dyn Discovery>,
        timeouts: Timeouts,
        encoding: Arc<Encoding>,
    ) -> Connector {
        Connector {
            io,
            discovery,
            timeouts,
            handler: Arc::new(|_| {}),
            setup_commands: Vec::new(),
            optional_commands: Vec::new(),
            push_handler: None,
            encoding,
            runtime: None,
            wait: None,
            previous_client: None,
            broken: Arc::default(),
        }
    }

    /// Returns the purpose of the connections, in words.
    pub(crate) fn purpose(&self) -> &'static str {
        match (&self.push_handler, &self.wait) {
            (Some(_), _) => "messages",
            (None, Some(_)) => "requests that replicas acknowledge",
            (None, None) => "requests",
        }
    }

    async fn connect_and_set_up(
        &mut self,
        endpoint: &Endpoint,
        login: Option<Login>,
        deadline: Instant,
    ) -> Result<Connection, EngineError> {
        let runtime = self.runtime.clone().unwrap_or_else(Handle::current);
        let stream = socket::connect(&endpoint.address, &runtime).await;
        let wait = self.wait.as_ref().map(Cmd::get_packed_command);
        let output = Output::new(self.encoding.clone(), wait.unwrap_or_default());
        let on_message = self.push_handler.as_ref().map(|it| it.message.clone());
        let exchange = Exchange::new(stream.map_err(connect_error)?, output, on_message);
        let pipeline = Arc::<Pipeline>::default();
        let (timeouts, broken) = (self.timeouts.clone(), self.broken.clone());
        let driver = Driver::start(&runtime, pipeline.clone(), exchange, timeouts, broken);
        let accepted = self.set_up(&pipeline, endpoint, login, deadline).await?;
        driver.set_up(self.previous_client.clone());
        if let Some(handler) = &self.push_handler {
            (handler.connected)(accepted);
        }
        let endpoint = endpoint.clone();
        Ok(Connection::new(endpoint, self.io, pipeline, driver))
    }

    /// Returns what a connection begins with.
    fn first_requests(
        &self,
        endpoint: &Endpoint,
        login: Option<&Login>,
    ) -> Vec<(Purpose, Arc<Cmd>)> {
        let (database, protocol) = endpoint.address.database();
        let needs_resp3 = self.push_handler.is_some() || protocol.supports_resp3();
        let role = || (Purpose::CheckRole, command(&["ROLE"]));
        // Requests that are still on their way on the previous connection must not be carried out after those
        // on the new one: a late acquisition would hold the lock without a holder.
        let kill = self.previous_client.as_ref().map(ClientId::kill);
        let kill = kill.map(|kill| (Purpose::KillPrevious, command(&kill)));
        let of = |purpose| move |command: &Cmd| (purpose, command.clone());
        login::login(login, database, needs_resp3)
            .chain(endpoint.requires_master_role().then(role))
            .chain(kill)
            .chain([(Purpose::Identify, command(&["CLIENT", "INFO"]))])
            .chain(self.setup_commands.iter().map(of(Purpose::Required)))
            .chain(self.optional_commands.iter().map(of(Purpose::Optional)))
            .chain(login::names())
            .map(|(purpose, command)| (purpose, Arc::new(command)))
            .collect()
    }

    /// Logs in and sets the connection up, by requests that are all sent at once, so that it takes one round
    /// trip. Returns `true` if the server has accepted the optional ones, too.
    async fn set_up(
        &mut self,
        pipeline: &Pipeline,
        endpoint: &Endpoint,
        login: Option<Login>,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        let requests = self.first_requests(endpoint, login.as_ref());
        let outcomes = join_all(requests.iter().map(|(purpose, command)| async move {
            let envelope = Content::Command(command).by(Via::IoThread, deadline);
            (*purpose, pipeline.submit(&envelope).await)
        }));
        let mut accepted = true;
        let mut last_words = None;
        for (purpose, outcome) in outcomes.await {
            let Outcome::Reply(reply, _) = outcome else {
                return Err(last_words.map_or_else(|| pipeline.why_ended(), connect_error));
            };
            let reply = reply.extract_error();
            last_words = reply.as_ref().err().cloned();
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
                (Purpose::CheckRole, Ok(role)) => require_master(&role)?,
                (Purpose::Optional, Err(error)) if is_auth_error(&error) => {
                    return Err(connect_error(error));
                }
                // A server that does not load scripts ahead gets their source when they are called.
                (Purpose::Optional, reply) => accepted &= reply.is_ok(),
                (Purpose::Name, _) => {}
                (purpose, reply) => drop(reply.map_err(|error| refused(purpose, error))?),
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
        let deadline = self.timeouts.end_of_try(timeout);
        let connected = io.timeout_at(deadline, async {
            let endpoint = discovery.endpoint().await?;
            let connecting = self.connect_and_set_up(&endpoint, login, deadline);
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

/// Fails unless the server confirms that it is a master.
fn require_master(role: &Value) -> Result<(), EngineError> {
    match role {
        Value::Array(fields) if fields.first() == Some(&Value::BulkString(b"master".into())) => {
            Ok(())
        }
        _ => {
            let words = "the server that the Sentinels name is not the master";
            Err(EngineError::new(EngineErrorKind::NotConnected, words))
        }
    }
}
