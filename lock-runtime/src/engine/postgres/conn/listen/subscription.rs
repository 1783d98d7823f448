//! A connection that listens on a channel of its own, with an advisory lock, which tells others that this process lives.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::postgres::address::Target;
use crate::engine::postgres::conn::connect::Connection;
use crate::engine::postgres::wire::error::connecting;
use crate::engine::token::Token;
use crate::util::io_thread::IoThread;
use crate::util::time::{deadline_in, now, timeout_at};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_postgres::AsyncMessage;

pub(crate) enum Event {
    /// A claim is about to wait.
    Wanted,
    /// A message has not arrived.
    Replace,
    /// The listener has been dropped.
    Closed,
    /// The attempt of that number has ended.
    Opened(u64, Result<Box<Subscription>, EngineError>),
    /// A message on the connection of that number.
    Message(u64, String),
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
    target: &Target,
    timeout: Duration,
    number: u64,
    sender: &mpsc::UnboundedSender<Event>,
) -> Result<Subscription, EngineError> {
    let failed = |words: &str| EngineError::new(EngineErrorKind::NotConnected, words);
    let token = Token::random();
    let channel = format!("lock_{}", token.encode(&mut [0; 37]));
    let sender = sender.clone();
    let on_message = Box::new(move |message| {
        let _ = sender.send(match message {
            Some(AsyncMessage::Notification(message)) => {
                Event::Message(number, message.payload().to_owned())
            }
            Some(_) => return,
            None => Event::Ended(number),
        });
    });
    let open = Connection::open(io, &target.listen, target, timeout, on_message);
    let connection = open.await?;
    // No message passes a pooler, and what is set there stays.
    if !connection.backend.is_own {
        return Err(failed("no message passes a pooler"));
    }
    let listen = target.schema.sql(&format!(
        "SET lock_timeout = '1s'; \
         SELECT pg_advisory_lock(hashtextextended('distributed_lock listens {channel}', 0)); \
         LISTEN {channel}"
    ));
    let listen = connection.client.batch_execute(&listen);
    match timeout_at(deadline_in(timeout), listen).await {
        Ok(Ok(())) => Ok(Subscription {
            number,
            channel: channel.into(),
            since: now(),
            _connection: connection,
        }),
        Ok(Err(error)) => Err(connecting(&error)),
        Err(_) => Err(failed("the server did not answer in time")),
    }
}
