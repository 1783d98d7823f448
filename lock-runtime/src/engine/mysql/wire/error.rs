//! Why a request failed, and what that says of it.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::own_store::StoreError;
use mysql_common::constants::CapabilityFlags;
use mysql_common::io::ParseBuf;
use mysql_common::packets::ErrPacket;
use std::error::Error;
use std::fmt;
use std::io;

/// An error that the server has sent.
#[derive(Clone, Debug)]
pub(crate) struct ServerError {
    pub(crate) code: u16,
    words: String,
}

/// The row is there already.
const DUPLICATE: u16 = 1062;
const NO_VARIABLE: u16 = 1193;
/// No table of that name.
const NO_TABLE: u16 = 1146;
/// Of two transactions that wait for each other, this one is undone.
const DEADLOCK: u16 = 1213;
/// Another connection has ended the statement.
const INTERRUPTED: u16 = 1317;

/// How many characters of an error are kept.
const MAX_WORDS: usize = 500;

impl ServerError {
    pub(crate) fn parse(packet: &[u8], flags: CapabilityFlags) -> Result<ServerError, Failure> {
        match ParseBuf(packet).parse::<ErrPacket<'_>>(flags)? {
            ErrPacket::Error(error) => Ok(ServerError {
                code: error.error_code(),
                words: error.message_str().chars().take(MAX_WORDS).collect(),
            }),
            ErrPacket::Progress(_) => Err(Failure::Malformed("a report of progress")),
        }
    }

    pub(crate) fn is_duplicate(&self) -> bool {
        self.code == DUPLICATE
    }

    pub(crate) fn is_no_table(&self) -> bool {
        self.code == NO_TABLE
    }

    pub(crate) fn is_no_variable(&self) -> bool {
        self.code == NO_VARIABLE
    }

    /// Returns `true` if another connection is to be used: another server may accept the request, or it is
    /// unknown what this one has done.
    pub(crate) fn ends_session(&self) -> bool {
        let is_unknown = self.kind() == EngineErrorKind::Indeterminate;
        self.is_read_only() || is_unknown && !self.is_duplicate()
    }

    fn is_read_only(&self) -> bool {
        matches!(self.code, 1290 | 1792 | 1836)
    }

    /// Returns `true` if another transaction has the row.
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self.code, 1205 | 3572)
    }

    /// Returns `true` if a number has no place in its type.
    pub(crate) fn is_out_of_range(&self) -> bool {
        self.code == 1690
    }

    /// Returns `true` if the server has undone the whole transaction.
    pub(crate) fn is_deadlock(&self) -> bool {
        self.code == DEADLOCK
    }

    /// Returns `true` if another connection has ended the statement.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.code == INTERRUPTED
    }

    /// Returns what it says of a request of its own.
    pub(crate) fn kind(&self) -> EngineErrorKind {
        match self.code {
            _ if self.is_read_only() => EngineErrorKind::NotReady,
            // A wait for a row or a table, a deadlock, too many connections, a full disk or table, a node
            // that is not in its cluster, a commit that it did not certify, a thread to kill that is gone or
            // is another user's.
            1205 | 1213 | 1040 | 1203 | 1226 | 1021 | 1114 | 1047 | 3101 | 1094 | 1095 => {
                EngineErrorKind::NotReady
            }
            // Rights, a user, a host, a database, a table or columns, a name that is too long,
            // `binlog_format`, TLS that is demanded.
            1044 | 1045 | 1049 | 1054 | 1071 | 1130 | 1142 | 1143 | 1146 | 1227 | 1406 | 1665
            | 1698 | 3159 => EngineErrorKind::Rejected,
            _ => EngineErrorKind::Indeterminate,
        }
    }

    fn remedy(&self) -> &'static str {
        match self.code {
            1044 | 1142 | 1143 => {
                "; grant the user SELECT, INSERT, UPDATE and DELETE on `distributed_locks`, and CREATE, or make the \
                 table by `lock_runtime::mysql::TABLE`"
            }
            1045 | 1698 => "; check user and password, and `client_certificate` if it demands one",
            3159 => "; use `ssl-mode=required`",
            1049 => "; create the database, or name another one in the URL",
            1146 => {
                "; allow `create_schema`, or make it by `lock_runtime::mysql::TABLE` or `TABLE_OF_PROOFS`"
            }
            1665 => "; set `binlog_format` to ROW or MIXED",
            1021 | 1114 => "; make room on its disk",
            1040 | 1203 | 1226 => "; raise its limit of connections",
            _ => "",
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (error {}){}", self.words, self.code, self.remedy())
    }
}

impl Error for ServerError {}

/// Why a connection can't be made, or used any longer.
#[derive(Debug)]
pub(crate) enum Failure {
    Server(ServerError),
    /// The server can't be used as it is, or by this user.
    Unfit(String),
    Broken(io::Error),
    Malformed(&'static str),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Broken(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Server(error) => error.fmt(f),
            Failure::Unfit(words) => f.write_str(words),
            Failure::Broken(error) => error.fmt(f),
            Failure::Malformed(words) => {
                write!(f, "the server does not speak MySQL's protocol: {words}")
            }
        }
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Failure::Server(error) => Some(error),
            Failure::Broken(error) => Some(error),
            Failure::Unfit(_) | Failure::Malformed(_) => None,
        }
    }
}

/// Of a connection that could not be made.
impl From<Failure> for EngineError {
    fn from(failure: Failure) -> EngineError {
        let kind = match &failure {
            Failure::Server(error) if error.kind() == EngineErrorKind::Rejected => {
                EngineErrorKind::Rejected
            }
            Failure::Unfit(_) => EngineErrorKind::Rejected,
            _ => EngineErrorKind::NotConnected,
        };
        EngineError::new(kind, failure)
    }
}

/// Of a request of its own.
impl From<ServerError> for StoreError {
    fn from(error: ServerError) -> StoreError {
        match error.kind() {
            EngineErrorKind::NotReady => StoreError::not_done(error),
            EngineErrorKind::Rejected => StoreError::denied(error),
            _ => StoreError::unknown(error),
        }
    }
}
