//! The messages that a server or another client sends to the channel of a process.

use crate::engine::event::{EngineEvent, Grant};
use crate::engine::recall::Recall;
use crate::engine::request::ServerTime;
use crate::engine::token::Token;
use std::time::Duration;

/// How an engine writes a grant.
pub(crate) struct Dialect {
    /// Reads the time for which the lock is granted.
    pub(crate) lease: fn(u64) -> Duration,
    /// Reads the name of the lock.
    pub(crate) name: fn(&str) -> String,
}

impl Dialect {
    /// Parses a message; returns `None` if it is invalid.
    pub(crate) fn parse(&self, message: &str) -> Option<EngineEvent> {
        let (kind, rest) = message.split_once(' ')?;
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
                name: (self.name)(name).into(),
                token,
                server_time: ServerTime(Duration::from_micros(at)),
                lease: (self.lease)(lease),
            })
        })
    }

    /// Parses a message on the channel of recalls. Its name can be guessed, so nothing else counts there:
    /// whoever sent a grant could give a lock to two holders.
    pub(crate) fn parse_recall(&self, message: &str) -> Option<EngineEvent> {
        let Recall { name, token } = Recall::parse(message.strip_prefix("recall ")?)?;
        let name = (self.name)(&name).into();
        Some(EngineEvent::Recalled(Recall { name, token }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Dialect = Dialect {
        lease: Duration::from_millis,
        name: str::to_owned,
    };

    #[test]
    fn a_grant_is_parsed_for_any_key() {
        for token in [
            "0123456789abcdef0123456789abcdef",
            "0123456789abcdef0123456789abcdef/3",
        ] {
            let text = format!("grant {token} 1700000000000001 2000 lock:a b {{c}}");
            let Some(EngineEvent::Granted(grant)) = PLAIN.parse(&text) else {
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
    }

    #[test]
    fn an_invalid_message_is_ignored() {
        let token = "0123456789abcdef0123456789abcdef";
        for text in [
            "",
            "echo",
            "grant",
            "grant x 1 2 lock:a",
            "others x",
            "free",
            "free x",
            &format!("grant {token} -1 2 lock:a"),
            &format!("grant {token} 1 2"),
            &format!("granted {token} 1 2 lock:a"),
        ] {
            assert!(PLAIN.parse(text).is_none(), "{text}");
        }
        for text in ["recall", "recall lock:a", &format!("recall {token}")] {
            assert!(PLAIN.parse_recall(text).is_none(), "{text}");
        }
    }
}
