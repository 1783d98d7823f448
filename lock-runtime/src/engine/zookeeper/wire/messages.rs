//! The messages of a connection that are no requests.

use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::jute::{Reader, Writer};
use std::time::Duration;

/// A watch that has fired.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Watch {
    /// The node was deleted, or its data has changed.
    Node(String),
    /// The node has other children, or was deleted.
    Children(String),
}

/// A message of the server.
pub(crate) enum Incoming<'a> {
    /// The reply to the oldest request, and the last transaction that the server knows.
    Reply {
        xid: i32,
        zxid: i64,
        result: Result<&'a [u8], Failure>,
    },
    Event {
        watches: Vec<Watch>,
        is_deletion: bool,
    },
    /// The login was refused.
    Refused,
    Other,
}

impl Incoming<'_> {
    pub(crate) fn parse(message: &[u8]) -> Option<Incoming<'_>> {
        let mut body = Reader(message);
        let (xid, zxid, error) = (body.int()?, body.long()?, body.int()?);
        Some(match xid {
            -1 => {
                let (event, _state, path) = (body.int()?, body.int()?, body.text()?);
                let node = || Watch::Node(path.to_owned());
                let children = || Watch::Children(path.to_owned());
                Incoming::Event {
                    watches: match event {
                        1 | 3 => vec![node()],
                        2 => vec![node(), children()],
                        4 => vec![children()],
                        _ => Vec::new(),
                    },
                    is_deletion: event == 2,
                }
            }
            // The reply to a login: the server ends the connection if it refuses.
            -4 if error == 0 => Incoming::Other,
            -4 => Incoming::Refused,
            _ => Incoming::Reply {
                xid,
                zxid,
                result: match error {
                    0 => Ok(body.0),
                    error => Err(Failure::of(error)),
                },
            },
        })
    }
}

/// The first message of a connection.
pub(crate) struct Hello {
    /// Zero and empty for a new session.
    pub(crate) session: i64,
    pub(crate) password: Vec<u8>,
    pub(crate) last_zxid: i64,
    pub(crate) timeout: Duration,
}

/// The reply to it.
#[derive(Clone, Debug)]
pub(crate) struct Welcome {
    /// Zero if the session has expired.
    pub(crate) session: i64,
    pub(crate) password: Vec<u8>,
    pub(crate) timeout: Duration,
}

impl Hello {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let timeout = i32::try_from(self.timeout.as_millis()).unwrap_or(i32::MAX);
        let hello = Writer::new().int(0).long(self.last_zxid).int(timeout);
        let hello = hello.long(self.session).bytes(&self.password);
        // A server without a majority must not serve this session.
        hello.bool(false).finish()
    }
}

impl Welcome {
    pub(crate) fn parse(message: &[u8]) -> Option<Welcome> {
        let mut message = Reader(message);
        let _version = message.int()?;
        let timeout = u64::try_from(message.int()?).unwrap_or(0);
        Some(Welcome {
            timeout: Duration::from_millis(timeout),
            session: message.long()?,
            password: message.bytes()?.to_owned(),
        })
    }
}

/// Returns the message that logs in, in the scheme `digest`.
pub(crate) fn encode_login(user: &str, password: &str) -> Vec<u8> {
    let login = Writer::new().int(-4).int(100).int(0).text("digest");
    login.text(&format!("{user}:{password}")).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_name_the_watches_that_fired() {
        let event = |kind: i32| {
            let event = Writer::new()
                .int(-1)
                .long(-1)
                .int(0)
                .int(kind)
                .int(3)
                .text("/a");
            match Incoming::parse(&event.finish()[4..]) {
                Some(Incoming::Event { watches, .. }) => watches.len(),
                _ => 9,
            }
        };
        assert_eq!([-1, 1, 2, 3, 4].map(event), [0, 1, 2, 1, 1]);
    }

    #[test]
    fn malformed_messages_are_refused() {
        let reply = Writer::new().int(1).long(5).int(0).finish();
        for length in 4..reply.len() - 1 {
            assert!(Incoming::parse(&reply[4..length]).is_none());
        }
        assert!(Welcome::parse(&[0; 8]).is_none());
    }
}
