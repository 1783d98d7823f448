//! What the server tells this process without being asked: one channel, on a connection of its own.

use crate::engine::error::EngineError;
use crate::engine::event::{Ear, Grant, News};
use crate::engine::redis::keys::Names;
use crate::engine::redis::net::connection::{Dialer, Sending, Subscriber};
use crate::engine::redis::net::reconnect::Link;
use crate::engine::request::ServerTime;
use crate::engine::token::Token;
use crate::util::io_thread::{Io, after};
use redis::{FromRedisValue, Value};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

/// The subscription to the process' channel. It is made when the first claim waits.
pub(crate) struct Grants {
    pub(crate) channel: String,
    io: Io,
    dialer: Dialer,
    patience: Duration,
    link: OnceLock<Arc<Link>>,
}

impl Grants {
    /// The subscription of a process that otherwise speaks to the server as `dialer` says.
    pub(crate) fn new(dialer: &Dialer, names: &Names, ear: Ear) -> Self {
        let process = Token::fresh();
        let channel = names.grants(process.encode(&mut [0; 32]));
        let mut subscribe = redis::cmd("SUBSCRIBE");
        subscribe.arg(&channel);
        let (again, names) = (ear.clone(), names.clone());
        let subscriber = Subscriber {
            message: Arc::new(move |message| match read(message) {
                // A lock of others is none of ours, whatever the token.
                Some(News::Granted(grant)) if !names.has(&grant.name) => {}
                Some(news) => ear(news),
                None => {}
            }),
            connected: Arc::new(move || again(News::Resumed)),
        };
        Grants {
            channel,
            io: dialer.io,
            patience: dialer.timeouts.command,
            dialer: Dialer {
                greeting: vec![subscribe],
                optional: Vec::new(),
                subscriber: Some(subscriber),
                sending: Sending::Single,
                ..dialer.clone()
            },
            link: OnceLock::new(),
        }
    }

    /// Waits until the subscription stands: before that, nobody must grant anything to this process.
    pub(crate) async fn ready(&self, until: Instant) -> Result<(), EngineError> {
        let subscribe = || Arc::new(Link::open(self.io, self.dialer.clone()).0);
        self.link.get_or_init(subscribe).ready(until).await
    }

    /// Subscribes on a connection of its own, and ends it: it may be long until the first claim waits.
    pub(crate) async fn try_once(&self, until: Instant) -> Result<(), EngineError> {
        let mut dialer = self.dialer.clone();
        let subscriber = dialer.subscriber.as_mut();
        if let Some(subscriber) = subscriber {
            subscriber.connected = Arc::new(|| {});
        }
        let dial = async move { dialer.dial(|_| {}).await.map(drop) };
        match self.io.timeout_at(until, self.io.spawn(dial)).await {
            Ok(Ok(dialled)) => dialled,
            // It is tried again when it is needed.
            _ => Ok(()),
        }
    }

    /// Has the subscription answer, or be replaced: a grant was found before it was told. It may have
    /// been on its way, or whoever should tell it may be frozen.
    pub(crate) fn doubt(&self) {
        if let Some(link) = self.link.get().cloned() {
            let until = after(self.patience);
            self.io.spawn(async move {
                let _ = link.ask::<Value>(redis::cmd("PING"), until).await;
            });
        }
    }

    /// Subscribes anew: something that should have come has not.
    pub(crate) fn replace(&self) {
        if let Some(link) = self.link.get() {
            link.replace();
        }
    }
}

/// Reads a message, which is a channel and a text; what can't be read is not for us.
fn read(message: &[Value]) -> Option<News> {
    let text = String::from_redis_value(message.last()?.clone()).ok()?;
    let (kind, rest) = text.split_once(' ')?;
    match kind {
        "first" => return Token::parse(rest).map(News::First),
        "others" => return Token::parse(rest).map(News::Others),
        "free" => return Token::parse(rest).map(News::Free),
        _ => {}
    }
    let mut words = rest.splitn(4, ' ');
    let token = Token::parse(words.next()?)?;
    let at = words.next()?.parse().ok()?;
    let lease = words.next()?.parse().ok()?;
    let name = words.next()?;
    (kind == "grant").then(|| {
        News::Granted(Grant {
            name: name.into(),
            token,
            at: ServerTime(Duration::from_micros(at)),
            lease: Duration::from_millis(lease),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Option<News> {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        read(&[bulk("channel"), bulk(text)])
    }

    #[test]
    fn a_grant_is_read_whatever_the_key() {
        let token = "0123456789abcdef0123456789abcdef";
        let text = format!("grant {token} 1700000000000001 2000 lock:a b {{c}}");
        let Some(News::Granted(grant)) = told(&text) else {
            panic!("a grant");
        };
        assert_eq!(&*grant.name, "lock:a b {c}");
        assert_eq!(grant.token.encode(&mut [0; 32]), token);
        assert_eq!(grant.at.0, Duration::from_micros(1_700_000_000_000_001));
        assert_eq!(grant.lease, Duration::from_secs(2));
    }

    #[test]
    fn nonsense_is_no_news() {
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
            assert!(told(text).is_none(), "{text}");
        }
        assert!(read(&[]).is_none());
        assert!(read(&[Value::Nil]).is_none());
    }
}
