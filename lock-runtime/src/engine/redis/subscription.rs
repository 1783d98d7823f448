//! The subscription to this process's channel, on a connection of its own, and the messages it receives.

use crate::engine::common::upkeep::Connect;
use crate::engine::error::EngineError;
use crate::engine::event::{EngineEvent, EventHandler, Grant};
use crate::engine::redis::keys::Keys;
use crate::engine::redis::net::connector::{Connector, PushHandler, SendMode};
use crate::engine::redis::net::reconnect::ReconnectingConnection;
use crate::engine::request::ServerTime;
use crate::engine::token::Token;
use crate::util::io_thread::IoThread;
use crate::util::time::deadline_in;
use redis::{FromRedisValue, Value};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

/// The subscription to the process's channel. It is made when the first claim waits.
pub(crate) struct Subscription {
    pub(crate) channel: String,
    io: IoThread,
    connector: Connector,
    timeout: Duration,
    connection: OnceLock<Arc<ReconnectingConnection>>,
}

impl Subscription {
    /// Creates a subscription whose connections are made like those of `connector`.
    pub(crate) fn new(connector: &Connector, keys: &Keys, handler: EventHandler) -> Self {
        let process = Token::random();
        let channel = keys.channel(process.encode(&mut [0; 37]));
        let mut subscribe = redis::cmd("SUBSCRIBE");
        subscribe.arg(&channel);
        let (on_connected, keys) = (handler.clone(), keys.clone());
        let push_handler = PushHandler {
            message: Arc::new(move |message| match parse_message(message) {
                // The lock of another prefix is not ours, whatever the token.
                Some(EngineEvent::Granted(grant)) if !keys.has(&grant.name) => {}
                Some(news) => handler(news),
                None => {}
            }),
            connected: Arc::new(move || on_connected(EngineEvent::Resubscribed)),
        };
        Subscription {
            channel,
            io: connector.io,
            timeout: connector.timeouts.command,
            connector: Connector {
                setup_commands: vec![subscribe],
                optional_commands: Vec::new(),
                push_handler: Some(push_handler),
                send_mode: SendMode::Direct,
                ..connector.clone()
            },
            connection: OnceLock::new(),
        }
    }

    /// Waits until the subscription is made: the server must not grant a lock to this process before.
    pub(crate) async fn subscribed(&self, deadline: Instant) -> Result<(), EngineError> {
        let subscribe = || {
            Arc::new(ReconnectingConnection::connect_in_background(
                self.connector.clone(),
            ))
        };
        let connection = self.connection.get_or_init(subscribe);
        connection.connection_by(deadline, false).await.map(drop)
    }

    /// Subscribes once on a connection of its own, and closes it: the first claim may wait only much later.
    pub(crate) async fn try_once(&self, deadline: Instant) -> Result<(), EngineError> {
        let mut connector = self.connector.clone();
        let push_handler = connector.push_handler.as_mut();
        if let Some(push_handler) = push_handler {
            push_handler.connected = Arc::new(|| {});
        }
        let timeout = connector.timeouts.connect;
        let connect = async move { connector.connect(timeout).await.map(drop) };
        let tried = self.io.run_to_end(deadline, connect).await;
        // No reply is no error: the subscription is tried again when it is needed.
        tried.unwrap_or(Ok(()))
    }

    /// Pings the subscription, so that it is replaced if it is dead. Called when polling found a grant before
    /// its message arrived.
    pub(crate) fn probe(&self) {
        if let Some(connection) = self.connection.get().cloned() {
            let deadline = deadline_in(self.timeout);
            self.io.spawn(async move {
                let _ = connection
                    .send(&(&redis::cmd("PING")).into(), deadline)
                    .await;
            });
        }
    }

    /// Subscribes again. Called when an expected message has not arrived.
    pub(crate) fn resubscribe(&self) {
        if let Some(connection) = self.connection.get() {
            connection.reconnect();
        }
    }
}

/// Parses a message, which is a channel and a text; returns `None` if it is invalid.
fn parse_message(message: &[Value]) -> Option<EngineEvent> {
    let text = String::from_redis_value(message.last()?.clone()).ok()?;
    let (kind, rest) = text.split_once(' ')?;
    match kind {
        "first" => return Token::parse(rest).map(EngineEvent::AtFront),
        "others" => return Token::parse(rest).map(EngineEvent::MoreWaiters),
        "free" => return Token::parse(rest).map(EngineEvent::MayBeFree),
        _ => {}
    }
    let mut words = rest.splitn(4, ' ');
    let token = Token::parse(words.next()?)?;
    let at = words.next()?.parse().ok()?;
    let lease = words.next()?.parse().ok()?;
    let name = words.next()?;
    (kind == "grant").then(|| {
        EngineEvent::Granted(Grant {
            name: name.into(),
            token,
            server_time: ServerTime(Duration::from_micros(at)),
            lease: Duration::from_millis(lease),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<EngineEvent> {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        parse_message(&[bulk("channel"), bulk(text)])
    }

    #[test]
    fn a_grant_is_parsed_for_any_key() {
        let token = "0123456789abcdef0123456789abcdef";
        let text = format!("grant {token} 1700000000000001 2000 lock:a b {{c}}");
        let Some(EngineEvent::Granted(grant)) = parse(&text) else {
            panic!("a grant");
        };
        assert_eq!(&*grant.name, "lock:a b {c}");
        assert_eq!(grant.token.encode(&mut [0; 37]), token);
        assert_eq!(
            grant.server_time.0,
            Duration::from_micros(1_700_000_000_000_001)
        );
        assert_eq!(grant.lease, Duration::from_secs(2));
    }

    #[test]
    fn an_invalid_message_is_ignored() {
        let token = "0123456789abcdef0123456789abcdef";
        for text in [
            "",
            "grant",
            "grant x 1 2 lock:a",
            "others x",
            "free",
            "free x",
            &format!("grant {token} -1 2 lock:a"),
            &format!("grant {token} 1 2"),
            &format!("granted {token} 1 2 lock:a"),
        ] {
            assert!(parse(text).is_none(), "{text}");
        }
        assert!(parse_message(&[]).is_none());
        assert!(parse_message(&[Value::Nil]).is_none());
    }
}
