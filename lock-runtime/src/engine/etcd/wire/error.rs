//! Why a call failed, and what that means for a lock.

use crate::engine::error::{EngineError, EngineErrorKind};
use std::error::Error;
use std::fmt;

type Cause = Box<dyn Error + Send + Sync>;

#[derive(Debug)]
pub(crate) enum Failure {
    /// Nothing was sent.
    NotSent(Cause),
    /// The server may have carried the request out.
    NoReply(Cause),
    /// The server's reply.
    Status(Status),
}

/// A status of gRPC, other than success.
#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) code: u16,
    pub(crate) message: String,
}

const DEADLINE_EXCEEDED: u16 = 4;
const NOT_FOUND: u16 = 5;
const RESOURCE_EXHAUSTED: u16 = 8;
const UNAVAILABLE: u16 = 14;
const UNAUTHENTICATED: u16 = 16;

impl Failure {
    pub(crate) fn not_sent(cause: impl Into<Cause>) -> Failure {
        Failure::NotSent(cause.into())
    }

    pub(crate) fn no_reply(cause: impl Into<Cause>) -> Failure {
        Failure::NoReply(cause.into())
    }

    /// Returns the failure of a request before which this one happened: it was not sent.
    pub(crate) fn before_request(self) -> Failure {
        match self {
            Failure::NotSent(cause) | Failure::NoReply(cause) => Failure::NotSent(cause),
            Failure::Status(status) => Failure::NotSent(status.into()),
        }
    }

    fn says(&self, words: &[&str]) -> bool {
        match self {
            Failure::Status(status) => words.iter().any(|words| status.message.contains(words)),
            _ => false,
        }
    }

    /// Returns `true` if the server no longer knows the token of this connection's user. It did nothing.
    pub(crate) fn is_old_token(&self) -> bool {
        let by_code = matches!(self, Failure::Status(status) if status.code == UNAUTHENTICATED);
        by_code
            || self.says(&[
                "invalid auth token",
                "revision of auth store is old",
                "user name is empty",
            ])
    }

    /// Returns `true` if the request named a lease that has ended. The server did nothing.
    pub(crate) fn is_lost_lease(&self) -> bool {
        matches!(self, Failure::Status(status) if status.code == NOT_FOUND)
            && self.says(&["lease not found"])
    }

    /// Returns `true` if the request named a revision whose history is gone.
    pub(crate) fn is_compacted(&self) -> bool {
        self.says(&["revision has been compacted"])
    }

    pub(crate) fn needs_no_login(&self) -> bool {
        self.says(&["authentication is not enabled"])
    }

    /// Returns `true` if the server may have carried out a request that was sent, or still may.
    pub(crate) fn may_have_run(&self) -> bool {
        match self {
            Failure::NotSent(_) => false,
            Failure::NoReply(_) => true,
            Failure::Status(status) => match status.code {
                RESOURCE_EXHAUSTED => false,
                UNAVAILABLE => !self.says(&["no leader"]),
                // Canceled, unknown, deadline exceeded, aborted, internal, data loss.
                1 | 2 | DEADLINE_EXCEEDED | 10 | 13 | 15 => true,
                _ => false,
            },
        }
    }

    /// Returns `true` if another member may reply where this one does not.
    pub(crate) fn ends_connection(&self) -> bool {
        match self {
            Failure::NotSent(_) | Failure::NoReply(_) => true,
            Failure::Status(status) => status.code == UNAVAILABLE || self.may_have_run(),
        }
    }

    pub(crate) fn into_engine_error(self) -> EngineError {
        let may_have_run = self.may_have_run();
        match self {
            Failure::NotSent(cause) => EngineError::new(EngineErrorKind::NotConnected, cause),
            Failure::NoReply(cause) => EngineError::new(EngineErrorKind::Indeterminate, cause),
            Failure::Status(status) => {
                let kind = match status.code {
                    _ if may_have_run => EngineErrorKind::Indeterminate,
                    RESOURCE_EXHAUSTED | UNAVAILABLE | NOT_FOUND | UNAUTHENTICATED => {
                        EngineErrorKind::NotReady
                    }
                    _ => EngineErrorKind::Rejected,
                };
                EngineError::new(kind, status)
            }
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.message {
            "" => write!(f, "etcd replied with status {}", self.code),
            message => f.write_str(message),
        }?;
        let remedy = match &*self.message {
            message if message.contains("permission denied") => {
                "; grant the user's role `readwrite` on the prefix of the locks"
            }
            message if message.contains("database space exceeded") => {
                "; compact the history, and disarm the alarm `NOSPACE`"
            }
            message if message.contains("invalid user ID or password") => {
                "; check the user and the password"
            }
            message if message.contains("user name is empty") => {
                "; give the URL a user and a password"
            }
            message if message.contains("no leader") || message.contains("timed out") => {
                "; check that more than half of the members run"
            }
            _ => "",
        };
        f.write_str(remedy)
    }
}

impl Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, message: &str) -> Failure {
        Failure::Status(Status {
            code,
            message: message.to_owned(),
        })
    }

    #[test]
    fn a_status_says_whether_the_request_may_have_run() {
        for (failure, kind) in [
            (
                status(14, "etcdserver: request timed out"),
                EngineErrorKind::Indeterminate,
            ),
            (
                status(14, "etcdserver: no leader"),
                EngineErrorKind::NotReady,
            ),
            (
                status(8, "etcdserver: mvcc: database space exceeded"),
                EngineErrorKind::NotReady,
            ),
            (
                status(7, "etcdserver: permission denied"),
                EngineErrorKind::Rejected,
            ),
            (
                Failure::not_sent("it is closed"),
                EngineErrorKind::NotConnected,
            ),
            (
                Failure::no_reply("it is closed"),
                EngineErrorKind::Indeterminate,
            ),
        ] {
            let words = format!("{failure:?}");
            assert_eq!(failure.into_engine_error().kind, kind, "{words}");
        }
    }
}
