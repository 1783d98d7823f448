//! Errors of PostgreSQL: why a request failed, and whether it may have been carried out.

use crate::engine::error::{EngineError, EngineErrorKind};
use std::error::Error as _;
use std::fmt;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity};

/// A failed request.
pub(crate) struct Failure {
    pub(crate) error: EngineError,
    /// `true` if the connection is of no more use.
    pub(crate) ends_connection: bool,
    /// `true` if a part of the request, sent by itself, may succeed.
    pub(crate) may_be_split: bool,
}

impl Failure {
    /// Returns the failure of a request that was sent.
    pub(crate) fn of(error: &Error) -> Failure {
        let Some(db) = error.as_db_error() else {
            return Failure::indeterminate(text(error));
        };
        let code = db.code().code();
        // The session has ended, and with it the reply to a request that may have been committed.
        let severity = db.parsed_severity();
        if matches!(severity, Some(Severity::Fatal | Severity::Panic)) || may_be_committed(code) {
            return Failure::indeterminate(server_text(db));
        }
        Failure {
            error: EngineError::new(kind(code), server_text(db)),
            ends_connection: matches!(
                code,
                // The server is read-only, or the schema is gone: connecting finds another server, or makes
                // it. Or its clock was set forward: connecting reads it again.
                "25006" | "42P01" | "42883" | "3F000" | "DL002"
            ),
            may_be_split: code == "55P03" || code.starts_with("22"),
        }
    }

    /// Returns the failure of a request with a reply that makes no sense.
    pub(crate) fn unexpected(reply: &str) -> Failure {
        Failure::indeterminate(format!("the server replied with {reply}"))
    }

    fn indeterminate(words: String) -> Failure {
        Failure {
            error: EngineError::new(EngineErrorKind::Indeterminate, words),
            ends_connection: true,
            may_be_split: false,
        }
    }
}

/// Returns `true` if a request with that SQLSTATE may have been committed: the connection broke, perhaps that
/// of a pooler, or the server was shut down.
fn may_be_committed(code: &str) -> bool {
    code.starts_with("08") || matches!(code, "40003" | "57P01" | "57P02" | "57P05")
}

/// Returns why a request with that SQLSTATE failed. A statement that fails has changed nothing.
fn kind(code: &str) -> EngineErrorKind {
    match code {
        "DL003" => EngineErrorKind::NotReplicated,
        "25001" | "42501" | "0A000" => EngineErrorKind::Rejected,
        // The encoding of the database lacks a character.
        "22P05" | "22021" => EngineErrorKind::InvalidKey,
        _ => match code.get(..2) {
            Some("22" | "28" | "3D" | "42" | "3F") => EngineErrorKind::Rejected,
            _ => EngineErrorKind::NotReady,
        },
    }
}

/// Returns the error of a connection that could not be made.
pub(crate) fn connecting(error: &Error) -> EngineError {
    match error.as_db_error() {
        Some(db) => refused(db),
        None => unreached(error),
    }
}

/// Returns the error of a connection on which the server did not say why it failed.
fn unreached(error: &Error) -> EngineError {
    let words = text(error);
    let is_of_credentials = ["invalid configuration", "authentication error"]
        .iter()
        .any(|begin| words.starts_with(begin));
    if is_of_credentials {
        let words = format!("{words}; check the user and the password");
        return EngineError::new(EngineErrorKind::Rejected, words);
    }
    // The driver's error for a server that accepts only reads.
    let is_read_only = error
        .source()
        .and_then(|source| source.downcast_ref::<std::io::Error>())
        .is_some_and(|io| io.kind() == std::io::ErrorKind::PermissionDenied);
    if is_read_only {
        return EngineError::new(EngineErrorKind::NotConnected, ReadOnly::default());
    }
    // An error that names the certificate of the client has a remedy.
    let remedy = match words.contains("TLS") && !words.contains("`client_certificate`") {
        true => "; check `sslmode`, the server's certificate, and `root_certificate`",
        false => "",
    };
    EngineError::new(EngineErrorKind::NotConnected, words + remedy)
}

/// Returns the error of a connection that the server refused.
fn refused(db: &DbError) -> EngineError {
    let code = db.code().code();
    let remedy = match code.get(..2) {
        Some("28") if db.message().contains("certificate") => {
            "; check `client_certificate`, which may have to name the user, and `pg_hba.conf`"
        }
        Some("28") => "; check the user and the password, and `pg_hba.conf`",
        Some("3D") => "; check the database in the URL",
        Some("42") => "; check the rights of the role",
        _ => "",
    };
    let kind = match kind(code) {
        EngineErrorKind::Rejected => EngineErrorKind::Rejected,
        _ => EngineErrorKind::NotConnected,
    };
    EngineError::new(kind, server_text(db) + remedy)
}

/// The server accepts no writes.
#[derive(Debug)]
pub(crate) struct ReadOnly(pub(crate) String);

impl Default for ReadOnly {
    fn default() -> Self {
        let words = "the server accepts only reads: it is a standby, or `default_transaction_read_only` is set; \
                     name the primary in the URL, or all servers, `postgres://h1,h2/db`, or reset the setting";
        ReadOnly(words.to_owned())
    }
}

impl fmt::Display for ReadOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReadOnly {}

/// Returns `true` if no server accepts writes.
pub(crate) fn is_read_only(error: &EngineError) -> bool {
    error.source.downcast_ref::<ReadOnly>().is_some()
}

/// Returns the error of several servers, none of which could be connected to.
pub(crate) fn of_each(errors: Vec<(String, EngineError)>) -> EngineError {
    let are_read_only = errors.iter().all(|(_, error)| is_read_only(error));
    let error = EngineError::of_servers(errors);
    match are_read_only {
        true => EngineError::new(error.kind, ReadOnly(error.to_string())),
        false => error,
    }
}

fn server_text(db: &DbError) -> String {
    format!("{} (SQLSTATE {})", db.message(), db.code().code())
}

/// Returns the messages of an error and its causes.
fn text(error: &Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        cause = error.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_say_whether_to_try_again() {
        for (code, expected) in [
            ("40001", EngineErrorKind::NotReady),
            ("40P01", EngineErrorKind::NotReady),
            ("55P03", EngineErrorKind::NotReady),
            ("53300", EngineErrorKind::NotReady),
            ("53100", EngineErrorKind::NotReady),
            ("25006", EngineErrorKind::NotReady),
            ("DL002", EngineErrorKind::NotReady),
            ("DL003", EngineErrorKind::NotReplicated),
            ("42501", EngineErrorKind::Rejected),
            ("28P01", EngineErrorKind::Rejected),
            ("3D000", EngineErrorKind::Rejected),
            ("22P05", EngineErrorKind::InvalidKey),
        ] {
            assert_eq!(kind(code), expected, "{code}");
            assert!(!may_be_committed(code), "{code}");
        }
    }

    #[test]
    fn request_whose_session_ended_may_have_been_committed() {
        for code in ["08006", "08P01", "40003", "57P01", "57P02"] {
            assert!(may_be_committed(code), "{code}");
        }
    }
}
