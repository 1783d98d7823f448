//! The subscription to this process's channels, and to that on which all are asked, on a connection of its
//! own.

use crate::engine::common::message::Dialect;
use crate::engine::common::pace::MIN_TIMEOUT;
use crate::engine::common::upkeep::Connect;
use crate::engine::error::EngineError;
use crate::engine::event::{EngineEvent, EventHandler, Grant};
use crate::engine::recall::Recall;
use crate::engine::redis::conn::connect::{Connector, PushHandler};
use crate::engine::redis::conn::reconnect::ReconnectingConnection;
use crate::engine::redis::keys::Keys;
use crate::engine::redis::wire::encode::command;
use crate::process::ProcessId;
use crate::util::io_thread::IoThread;
use crate::util::time::{deadline_in, elapsed_since, now};
use redis::{FromRedisValue, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// The subscription. It is made when the first claim waits, or when the process listens.
pub(crate) struct Subscription {
    pub(crate) channel: String,
    io: IoThread,
    connector: Connector,
    timeout: Duration,
    connection: OnceLock<Arc<ReconnectingConnection>>,
    /// The server has accepted the other channels, too.
    hears_all: Arc<AtomicBool>,
}

const MESSAGES: Dialect = Dialect {
    lease: Duration::from_millis,
    name: str::to_owned,
};

/// The channels whose names others know.
pub(crate) struct Channels {
    /// Anything may come on it.
    pub(crate) asks: String,
    pub(crate) recalls: String,
}

/// Parses a message, which is a channel and a text; returns `None` if it is invalid.
pub(crate) fn parse_message(message: &[Value], known: &Channels) -> Option<EngineEvent> {
    let (text, channel) = message.split_last()?;
    let text = String::from_redis_value(text.clone()).ok()?;
    match channel.last() {
        Some(Value::BulkString(channel)) if channel == known.asks.as_bytes() => {
            Some(EngineEvent::Asked(text.into()))
        }
        Some(Value::BulkString(channel)) if channel == known.recalls.as_bytes() => {
            MESSAGES.parse_recall(&text)
        }
        _ => MESSAGES.parse(&text),
    }
}

impl Subscription {
    /// Creates a subscription whose connections are made like those of `connector`.
    pub(crate) fn new(
        connector: &Connector,
        keys: &Keys,
        process: ProcessId,
        handler: EventHandler,
    ) -> Self {
        let channel = keys.channel(&Uuid::new_v4().simple().to_string());
        let known = Channels {
            asks: keys.asks(),
            recalls: keys.recalls(process),
        };
        let subscribe = |channel: &String| command(&["SUBSCRIBE", channel]);
        let subscribe_others = [&known.asks, &known.recalls].map(subscribe);
        let hears_all = Arc::<AtomicBool>::default();
        let hears = hears_all.clone();
        let (on_connected, keys) = (handler.clone(), keys.clone());
        let push_handler = PushHandler {
            message: Arc::new(move |message| match parse_message(message, &known) {
                // The lock of another prefix is not ours, whatever the token.
                Some(
                    EngineEvent::Granted(Grant { name, .. })
                    | EngineEvent::Recalled(Recall { name, .. }),
                ) if !keys.has(&name) => {}
                Some(news) => handler(news),
                None => {}
            }),
            connected: Arc::new(move |accepted| {
                hears.store(accepted, Ordering::SeqCst);
                on_connected(EngineEvent::Resubscribed);
            }),
        };
        Subscription {
            io: connector.io,
            timeout: connector.timeouts.command,
            connector: Connector {
                setup_commands: vec![subscribe(&channel)],
                // A user who may not subscribe to them is granted locks all the same.
                optional_commands: subscribe_others.into(),
                push_handler: Some(push_handler),
                ..connector.clone()
            },
            channel,
            connection: OnceLock::new(),
            hears_all,
        }
    }

    /// Waits until the subscription is made: the server must not grant a lock to this process before.
    pub(crate) async fn subscribed(&self, deadline: Instant) -> Result<(), EngineError> {
        self.begin().connection_by(deadline, false).await.map(drop)
    }

    /// Returns `true` if recalls reach this process now; otherwise begins the subscription.
    pub(crate) fn hears_recalls(&self) -> bool {
        self.begin().present().is_some() && self.hears_all.load(Ordering::SeqCst)
    }

    /// Begins the subscription, unless it was begun before.
    pub(crate) fn begin(&self) -> &ReconnectingConnection {
        self.connection.get_or_init(|| {
            let connector = self.connector.clone();
            Arc::new(ReconnectingConnection::connect_in_background(connector))
        })
    }

    /// Subscribes once on a connection of its own, and closes it: the first claim may wait only much later.
    pub(crate) async fn try_once(&self, deadline: Instant) -> Result<(), EngineError> {
        let mut connector = self.connector.clone();
        let push_handler = connector.push_handler.as_mut();
        if let Some(push_handler) = push_handler {
            push_handler.connected = Arc::new(|_| {});
        }
        connector.optional_commands.clear();
        let connect = async move {
            let mut timeout = MIN_TIMEOUT;
            loop {
                let begun = now();
                match connector.connect(timeout).await {
                    // The node is silent, but a cluster has others.
                    Err(_) if elapsed_since(begun) >= timeout => {
                        timeout = timeout.saturating_mul(2);
                    }
                    result => return result.map(drop),
                }
            }
        };
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
                let _ = connection.ask::<Value>(&["PING"], deadline).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever knows the channel could give a lock to two holders.
    #[test]
    fn nothing_but_recalls_come_on_the_channel_that_others_know() {
        let known = Channels {
            asks: "lock:::asks".to_owned(),
            recalls: "lock:::recalls:7be01c5".to_owned(),
        };
        let token = "0123456789abcdef0123456789abcdef";
        for (text, is_recall) in [
            (format!("recall {token} lock:row"), true),
            (format!("grant {token} 1 2000 lock:row"), false),
            (format!("first {token}"), false),
        ] {
            let [own, recalls] = ["lock:::grants:own", &known.recalls].map(|channel| {
                let message = [channel, &text].map(|part| Value::BulkString(part.into()));
                parse_message(&message, &known)
            });
            assert_eq!(own.is_none(), is_recall, "{text}");
            assert_eq!(recalls.is_some(), is_recall, "{text}");
        }
    }
}
