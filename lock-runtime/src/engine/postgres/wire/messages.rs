//! The messages that clients send one another.

use crate::engine::event::{EngineEvent, Grant};
use crate::engine::postgres::keys::original;
use crate::engine::request::ServerTime;
use crate::engine::token::Token;
use std::time::Duration;

/// Parses a message; returns `None` if it is invalid.
pub(crate) fn parse(message: &str) -> Option<EngineEvent> {
    let (kind, rest) = message.split_once(' ')?;
    match kind {
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
            name: original(name).into(),
            token,
            server_time: ServerTime(Duration::from_micros(at)),
            lease: Duration::from_micros(lease),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_grant_is_parsed_for_any_key() {
        let text = format!("grant {TOKEN}/3 1700000000000001 2000000 lock:a b \\\\ {{c}}");
        let Some(EngineEvent::Granted(grant)) = parse(&text) else {
            panic!("a grant");
        };
        assert_eq!(&*grant.name, "lock:a b \\ {c}");
        assert_eq!(grant.lease, Duration::from_secs(2));
    }

    #[test]
    fn an_invalid_message_is_ignored() {
        for text in [
            "",
            "echo",
            "grant",
            "grant x 1 2 lock:a",
            "others x",
            "free",
            &format!("grant {TOKEN} -1 2 lock:a"),
            &format!("grant {TOKEN} 1 2"),
            &format!("granted {TOKEN} 1 2 lock:a"),
        ] {
            assert!(parse(text).is_none(), "{text}");
        }
    }
}
