//! Why a request has no reply.

use crate::engine::error::{EngineError, EngineErrorKind};
use std::fmt;
use std::sync::Arc;

/// The reason why a request has no reply.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    NoNode,
    Exists,
    /// The data of a node has another version than the request expects.
    BadVersion,
    NoPermission,
    LoginRefused,
    /// The server accepts no requests without a login.
    LoginRequired,
    SessionExpired,
    /// An error of the server, by its number.
    Server(i32),
    /// The request was sent, and no reply came.
    NoReply(Arc<str>),
    /// A node has more children than this client reads.
    TooMany,
    /// There was no connection.
    NotSent(Arc<str>),
    /// The server sent something else than ZooKeeper does.
    Malformed,
}

impl Failure {
    /// Returns the failure for which a server has that number.
    pub(crate) fn of(error: i32) -> Failure {
        match error {
            -101 => Failure::NoNode,
            -102 | -115 => Failure::NoPermission,
            -103 => Failure::BadVersion,
            -110 => Failure::Exists,
            -112 => Failure::SessionExpired,
            -124 => Failure::LoginRequired,
            other => Failure::Server(other),
        }
    }

    /// Returns the same failure as an error of the engine.
    pub(crate) fn into_error(self) -> EngineError {
        let kind = match &self {
            Failure::NoPermission
            | Failure::LoginRefused
            | Failure::LoginRequired
            | Failure::TooMany
            | Failure::Malformed => EngineErrorKind::Rejected,
            // Bad arguments, not implemented, an invalid list of permissions, a quota.
            Failure::Server(-8 | -6 | -114 | -125) => EngineErrorKind::Rejected,
            Failure::NoNode
            | Failure::Exists
            | Failure::BadVersion
            | Failure::SessionExpired
            | Failure::Server(_) => EngineErrorKind::NotReady,
            Failure::NoReply(_) => EngineErrorKind::Indeterminate,
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
            Failure::BadVersion => write!(f, "a node was changed meanwhile"),
            Failure::TooMany => write!(f, "a node has too many children to be listed"),
            Failure::NoPermission => write!(
                f,
                "the access control list of a node refuses this user; check user and password, and \
                 grant the user `cdrwa` on the nodes of the prefix"
            ),
            Failure::LoginRefused => write!(
                f,
                "the server refuses the login; check user and password, and let the server accept \
                 the scheme `digest`"
            ),
            Failure::LoginRequired => write!(
                f,
                "the server enforces a login; set user and password, let its `enforce.auth.schemes` contain `digest`, \
                 and set `sessionRequireClientSASLAuth` to `false`, since this client has no SASL"
            ),
            Failure::SessionExpired => write!(f, "the session has expired"),
            Failure::Server(-6) => write!(
                f,
                "the server does not know a request; use ZooKeeper 3.5 or newer"
            ),
            Failure::Server(-125) => write!(f, "a quota of the server is exceeded; raise it"),
            Failure::Server(number) => write!(f, "the server reports error {number}"),
            Failure::NoReply(why) => write!(f, "the server did not reply: {why}"),
            Failure::NotSent(why) => write!(f, "there is no connection: {why}"),
            Failure::Malformed => write!(
                f,
                "the server sent a malformed message; check that it is a ZooKeeper server"
            ),
        }
    }
}
