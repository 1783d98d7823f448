//! A connection that listens on a channel of its own, with an advisory lock, which shows others that this process lives, and
//! on those on which it is recalled, and all processes are asked.

use crate::engine::common::message::Dialect;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::postgres::address::Address;
use crate::engine::postgres::conn::connect::{Connection, MessageHandler};
use crate::engine::postgres::keys::original;
use crate::engine::postgres::sql::schema::Schema;
use crate::engine::postgres::wire::error::connecting;
use crate::engine::timeouts::Timeouts;
use crate::process::ProcessId;
use crate::util::io_thread::IoThread;
use crate::util::time::{deadline_in, now, timeout_at};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_postgres::AsyncMessage;
use uuid::Uuid;

pub(crate) const MESSAGES: Dialect = Dialect {
    lease: Duration::from_micros,
    name: original,
};

pub(crate) enum Event {
    /// A claim is about to wait.
    Wanted,
    /// A message has not arrived.
    Replace,
    /// The listener has been dropped.
    Closed,
    /// The connection of that number has been made, or could not be.
    Opened(u64, Result<Box<Subscription>, EngineError>),
    /// A message on the connection of that number.
    Message(u64, String),
    /// All processes are asked.
    Asked(Arc<str>),
    /// The connection of that number has ended.
    Ended(u64),
}

/// A connection that listens on a channel of its own.
pub(crate) struct Subscription {
    pub(crate) number: u64,
    pub(crate) channel: Arc<str>,
    pub(crate) since: Instant,
    _connection: Connection,
}

/// Connects, and listens on a new channel.
pub(crate) async fn subscribe(
    io: IoThread,
    address: &Address,
    timeouts: &Timeouts,
    process: ProcessId,
    number: u64,
    sender: &mpsc::UnboundedSender<Event>,
) -> Result<Subscription, EngineError> {
    let known = [address.schema.asks(), address.schema.recalls(process)];
    let on_message = reporter(number, known, sender.clone());
    let login = address.credentials.get(io, timeouts.credentials_by());
    let (login, timeout) = (login.await?, timeouts.connect);
    let until = deadline_in(timeout);
    let open = Connection::open(io, &address.listen, (address, login), until, on_message);
    let connection = open.await?;
    // No message passes a pooler, and a setting made there stays.
    if !connection.backend.is_own {
        return Err(failed("no message passes a pooler"));
    }
    let channel = format!("lock_{}", Uuid::new_v4().simple());
    let listen = listen(&connection, &channel, process, &address.schema);
    match timeout_at(deadline_in(timeout), listen).await {
        Ok(listening) => listening?,
        Err(_) => return Err(failed("the server did not reply in time")),
    }
    Ok(Subscription {
        number,
        channel: channel.into(),
        since: now(),
        _connection: connection,
    })
}

/// Returns the handler that reports the messages of the connection of that number. Others know the channels `asks` and
/// `recalls`.
fn reporter(
    number: u64,
    [asks, recalls]: [String; 2],
    sender: mpsc::UnboundedSender<Event>,
) -> MessageHandler {
    Box::new(move |message| {
        let _ = sender.send(match message {
            Some(AsyncMessage::Notification(message)) if message.channel() == asks => {
                Event::Asked(message.payload().into())
            }
            Some(AsyncMessage::Notification(message))
                if message.channel() == recalls
                    && MESSAGES.parse_recall(message.payload()).is_none() =>
            {
                return;
            }
            Some(AsyncMessage::Notification(message)) => {
                Event::Message(number, message.payload().to_owned())
            }
            Some(_) => return,
            None => Event::Ended(number),
        });
    })
}

async fn listen(
    connection: &Connection,
    channel: &str,
    process: ProcessId,
    schema: &Schema,
) -> Result<(), EngineError> {
    let listen = schema.sql(&format!(
        "SET lock_timeout = '1s'; \
         SELECT pg_advisory_lock(hashtextextended('distributed_lock listens {channel}', 0)); \
         LISTEN {channel}"
    ));
    let (asks, recalls) = (schema.asks(), schema.recalls(process));
    let listen = format!("{listen}; LISTEN {asks}; LISTEN {recalls}");
    let listening = connection.client.batch_execute(&listen).await;
    listening.map_err(|error| connecting(&error))
}

fn failed(words: &str) -> EngineError {
    EngineError::new(EngineErrorKind::NotConnected, words)
}
