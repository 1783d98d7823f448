//! The messages between a client and a server.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::zookeeper::net::jute::{Reader, Writer};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A request within a session.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Create {
        path: String,
        kind: NodeKind,
    },
    Delete {
        path: String,
    },
    /// Is answered with [`Reply::Done`] if the node exists.
    Exists {
        path: String,
    },
    Data {
        path: String,
        watch: bool,
    },
    SetData {
        path: String,
        data: String,
    },
    Children {
        path: String,
        watch: bool,
    },
    /// Has the server catch up with the leader before later reads.
    Sync {
        path: String,
    },
    Ping,
    CloseSession,
}

/// Who may read and change the nodes that a client creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Anyone,
    /// Those who log in with the same credentials.
    Creator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    /// Ends with the session.
    Ephemeral,
    /// Ends with the session; the server appends a number that increases from child to child.
    Numbered,
    /// Ends when it has no children any more.
    Container,
}

#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Done,
    /// The path of a created node.
    Created(String),
    /// The id of the transaction.
    Changed(u64),
    Data(Vec<u8>),
    Children(Vec<String>),
}

/// The reason why a request has no reply.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    NoNode,
    Exists,
    NoPermission,
    SessionExpired,
    /// An error of the server, by its number.
    Server(i32),
    /// The request was sent, and no reply came.
    Unanswered(Arc<str>),
    /// There was no connection.
    NotSent(Arc<str>),
    /// The server sent something else than ZooKeeper does.
    Malformed,
}

/// A watch that has fired.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Watch {
    /// The node was deleted, or its data has changed.
    Node(String),
    /// The node has other children, or was deleted.
    Children(String),
}

impl Request {
    /// Returns `true` if the reply needs the consent of a majority of the servers.
    pub(crate) fn is_write(&self) -> bool {
        matches!(
            self,
            Request::Create { .. } | Request::Delete { .. } | Request::SetData { .. }
        )
    }

    /// Returns the watch that the request leaves on the server.
    pub(crate) fn watch(&self) -> Option<Watch> {
        match self {
            Request::Data { path, watch: true } => Some(Watch::Node(path.clone())),
            Request::Children { path, watch: true } => Some(Watch::Children(path.clone())),
            _ => None,
        }
    }

    pub(crate) fn encode(&self, xid: i32, access: Access) -> Vec<u8> {
        let header = |operation| Writer::new().int(xid).int(operation);
        let message = match self {
            Request::Create { path, kind } => {
                let (scheme, id) = match access {
                    Access::Anyone => ("world", "anyone"),
                    Access::Creator => ("auth", ""),
                };
                let (operation, flags) = match kind {
                    NodeKind::Ephemeral => (15, 1),
                    NodeKind::Numbered => (15, 3),
                    NodeKind::Container => (19, 4),
                };
                let message = header(operation).text(path).bytes(&[]);
                // A list of one entry, with all permissions.
                let message = message.int(1).int(31).text(scheme).text(id);
                message.int(flags)
            }
            Request::Delete { path } => header(2).text(path).int(-1),
            Request::Exists { path } => header(3).text(path).bool(false),
            Request::Data { path, watch } => header(4).text(path).bool(*watch),
            Request::SetData { path, data } => header(5).text(path).text(data).int(-1),
            Request::Children { path, watch } => header(8).text(path).bool(*watch),
            Request::Sync { path } => header(9).text(path),
            Request::Ping => header(11),
            Request::CloseSession => header(-11),
        };
        message.finish()
    }

    /// Parses the part of a successful reply that follows the header.
    pub(crate) fn parse_reply(&self, body: &[u8]) -> Option<Reply> {
        let mut body = Reader(body);
        Some(match self {
            Request::Create { .. } => Reply::Created(body.text()?.to_owned()),
            Request::SetData { .. } => {
                let _created = body.long()?;
                Reply::Changed(u64::try_from(body.long()?).ok()?)
            }
            Request::Data { .. } => Reply::Data(body.bytes()?.to_owned()),
            Request::Children { .. } => Reply::Children(body.texts()?),
            Request::Delete { .. }
            | Request::Exists { .. }
            | Request::Sync { .. }
            | Request::Ping
            | Request::CloseSession => Reply::Done,
        })
    }
}

/// A message of the server.
pub(crate) enum Incoming<'a> {
    /// The reply to the oldest request, and the last transaction that the server knows.
    Reply {
        xid: i32,
        zxid: i64,
        result: Result<&'a [u8], Failure>,
    },
    Event(Vec<Watch>),
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
                Incoming::Event(match event {
                    1 | 3 => vec![node()],
                    2 => vec![node(), children()],
                    4 => vec![children()],
                    _ => Vec::new(),
                })
            }
            // The reply to a login: the server ends the connection if it refuses.
            -4 if error == 0 => Incoming::Other,
            -4 => Incoming::Refused,
            _ => Incoming::Reply {
                xid,
                zxid,
                result: match error {
                    0 => Ok(body.0),
                    -101 => Err(Failure::NoNode),
                    -102 | -115 => Err(Failure::NoPermission),
                    -110 => Err(Failure::Exists),
                    -112 => Err(Failure::SessionExpired),
                    other => Err(Failure::Server(other)),
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
pub(crate) fn login(user: &str, password: &str) -> Vec<u8> {
    let login = Writer::new().int(-4).int(100).int(0).text("digest");
    login.text(&format!("{user}:{password}")).finish()
}

impl Failure {
    /// Returns the same failure as an error of the engine.
    pub(crate) fn into_error(self) -> EngineError {
        let kind = match &self {
            Failure::NoPermission | Failure::Malformed => EngineErrorKind::Rejected,
            // Bad arguments, not implemented, an invalid list of permissions, a quota.
            Failure::Server(-8 | -6 | -114 | -125) => EngineErrorKind::Rejected,
            Failure::NoNode | Failure::Exists | Failure::SessionExpired | Failure::Server(_) => {
                EngineErrorKind::NotReady
            }
            Failure::Unanswered(_) => EngineErrorKind::Indeterminate,
            Failure::NotSent(_) => EngineErrorKind::NotConnected,
        };
        EngineError::new(kind, self)
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NoNode => write!(f, "a node was deleted meanwhile"),
            Failure::Exists => write!(f, "a node was created meanwhile"),
            Failure::NoPermission => write!(
                f,
                "the access control list of a node refuses this user; check user and password, and \
                 grant the user `cdrwa` on the nodes of the prefix"
            ),
            Failure::SessionExpired => write!(f, "the session has expired"),
            Failure::Server(-6) => write!(
                f,
                "the server does not know a request; use ZooKeeper 3.5 or newer"
            ),
            Failure::Server(-125) => write!(f, "a quota of the server is exceeded; raise it"),
            Failure::Server(number) => write!(f, "the server reports error {number}"),
            Failure::Unanswered(why) => write!(f, "the server did not answer: {why}"),
            Failure::NotSent(why) => write!(f, "there is no connection: {why}"),
            Failure::Malformed => write!(
                f,
                "the server sent a malformed message; check that it is a ZooKeeper server"
            ),
        }
    }
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
                Some(Incoming::Event(watches)) => watches.len(),
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
        let request = Request::Children {
            path: "/a".into(),
            watch: false,
        };
        assert!(request.parse_reply(&[0, 0, 0, 9]).is_none());
        assert!(Welcome::parse(&[0; 8]).is_none());
    }
}
