//! Makes the connections that listen, one after the other: on a channel of this process, on the one on which
//! it is recalled, and on the one on which all processes are asked.
//!
//! An advisory lock shows others that this process listens. Its connections share the lock, so that a backend
//! which hangs, and can't be ended, keeps no later one waiting.

use crate::engine::common::message::Dialect;
use crate::engine::common::upkeep::Connect;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::{EngineEvent, EventHandler};
use crate::engine::postgres::address::Address;
use crate::engine::postgres::conn::batch::queue::RequestQueue;
use crate::engine::postgres::conn::batch::request::Request;
use crate::engine::postgres::conn::connect::{Connection, MessageHandler};
use crate::engine::postgres::conn::listen::subscription::{Hearing, Listening, Subscription};
use crate::engine::postgres::conn::stale_backends::StaleBackends;
use crate::engine::postgres::keys::original;
use crate::engine::postgres::wire::error::connecting;
use crate::engine::timeouts::Timeouts;
use crate::process::ProcessId;
use crate::util::backoff::Backoff;
use crate::util::io_thread::IoThread;
use crate::util::time::{deadline_in, now, timeout_at};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_postgres::AsyncMessage;
use uuid::Uuid;

/// How long a message to itself may take.
const ECHO: Duration = Duration::from_secs(1);

pub(crate) const MESSAGES: Dialect = Dialect {
    lease: Duration::from_micros,
    name: original,
};

#[derive(Clone)]
pub(crate) struct Subscriber {
    pub(crate) io: IoThread,
    pub(crate) address: Arc<Address>,
    pub(crate) timeouts: Timeouts,
    pub(crate) channel: Arc<str>,
    process: ProcessId,
    /// Takes the message to itself.
    queue: Arc<RequestQueue>,
    handler: EventHandler,
    stale: StaleBackends,
    /// For how long claims poll when no message has arrived.
    pauses: Backoff,
}

impl Subscriber {
    pub(crate) fn new(
        io: IoThread,
        address: Arc<Address>,
        timeouts: Timeouts,
        process: ProcessId,
        queue: Arc<RequestQueue>,
        handler: EventHandler,
    ) -> Subscriber {
        Subscriber {
            io,
            address,
            timeouts,
            channel: format!("lock_{}", Uuid::new_v4().simple()).into(),
            process,
            queue,
            handler,
            stale: StaleBackends::default(),
            pauses: pauses(),
        }
    }

    /// Ends the backends of earlier connections, which others would take for this process, and listens.
    async fn listen(&mut self, connection: &Connection) -> Result<(), EngineError> {
        self.stale.end(&connection.client).await?;
        self.stale.add(connection.backend);
        let (schema, channel) = (&self.address.schema, &self.channel);
        let lock = schema.sql(&format!(
            "SELECT pg_advisory_lock_shared(hashtextextended('distributed_lock listens {channel}', 0))"
        ));
        let (asks, recalls) = (schema.asks(), schema.recalls(self.process));
        let listen = format!("{lock}; LISTEN {channel}; LISTEN {asks}; LISTEN {recalls}");
        let listening = connection.client.batch_execute(&listen).await;
        listening.map_err(|error| connecting(&error))
    }

    /// Returns the handler of messages. Others know the channels `asks` and `recalls`.
    fn on_message(&self, hearing: Arc<watch::Sender<Hearing>>) -> MessageHandler {
        let schema = &self.address.schema;
        let (asks, recalls) = (schema.asks(), schema.recalls(self.process));
        let handler = self.handler.clone();
        let set = move |it| _ = hearing.send_replace(it);
        Box::new(move |message| {
            let message = match message {
                Some(AsyncMessage::Notification(message)) => message,
                Some(_) => return,
                None => return set(Hearing::Ended),
            };
            let event = match (message.channel(), message.payload()) {
                (channel, text) if channel == asks => Some(EngineEvent::Asked(text.into())),
                (channel, text) if channel == recalls => MESSAGES.parse_recall(text),
                (_, "echo") => return set(Hearing::Proven),
                (_, text) => MESSAGES.parse(text),
            };
            if let Some(event) = event {
                handler(event);
            }
        })
    }

    fn polling(&mut self) -> Arc<Subscription> {
        Arc::new(Subscription::Polling(deadline_in(self.pauses.pause())))
    }
}

impl Connect for Subscriber {
    type Connection = Subscription;

    /// Messages arrive once one has that this process sends to itself over the connection for requests, which
    /// may lead to another server.
    async fn connect(&mut self, timeout: Duration) -> Result<Arc<Subscription>, EngineError> {
        let address = self.address.clone();
        let known_by = self.timeouts.credentials_by();
        let login = address.credentials.get(self.io, known_by).await?;
        let hearing = Arc::new(watch::Sender::new(Hearing::Unknown));
        let (until, on_message) = (deadline_in(timeout), self.on_message(hearing.clone()));
        let (servers, of) = (&address.listen, (&*address, login));
        let connection = Connection::open(self.io, servers, of, until, on_message).await?;
        // No message passes a pooler, and a setting made there stays.
        if !connection.backend.is_own {
            return Ok(self.polling());
        }
        match timeout_at(until, self.listen(&connection)).await {
            Ok(listening) => listening?,
            Err(_) => return Err(failed("the server did not reply in time")),
        }
        let echo = format!("{} echo", self.channel);
        self.queue.push(Request::Notify(vec![echo]));
        let mut heard = hearing.subscribe();
        let heard = heard.wait_for(|it| *it != Hearing::Unknown);
        if timeout_at(deadline_in(ECHO), heard).await.is_err() {
            return Ok(self.polling());
        }
        if *hearing.borrow() == Hearing::Ended {
            return Err(failed("the connection has ended"));
        }
        self.pauses = pauses();
        Ok(Arc::new(Subscription::Listening(Listening {
            since: now(),
            hearing,
            handler: self.handler.clone(),
            _connection: Box::new(connection),
        })))
    }

    /// Lets all claims ask again, and name the channel.
    fn connected(&mut self, subscription: &Arc<Subscription>) {
        if subscription.hears() {
            (self.handler)(EngineEvent::Resubscribed);
        }
    }
}

fn failed(words: &str) -> EngineError {
    EngineError::new(EngineErrorKind::NotConnected, words)
}

fn pauses() -> Backoff {
    Backoff::new(Duration::from_millis(100), Duration::from_secs(20))
}
