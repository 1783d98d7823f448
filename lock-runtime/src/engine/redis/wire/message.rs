//! The messages that the scripts publish to the channel of a process.

use crate::engine::event::{EngineEvent, Grant};
use crate::engine::request::ServerTime;
use crate::engine::token::Token;
use redis::{FromRedisValue, Value};
use std::time::Duration;

/// Parses a message, which is a channel and a text; returns `None` if it is invalid.
pub(crate) fn parse_message(message: &[Value]) -> Option<EngineEvent> {
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
