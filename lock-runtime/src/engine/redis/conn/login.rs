//! How a connection begins: the requests by which it logs in, and what a refusal of them means.

use crate::credentials::Login;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::redis::wire::encode::command;
use crate::engine::redis::wire::error::{
    connect_error, error_kind, is_general, is_turned_away, with_message,
};
use redis::{Cmd, RedisError};

/// The purpose of a request with which a connection begins.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Purpose {
    /// Changes the protocol to RESP3, and logs in.
    Hello,
    Auth,
    Select,
    CheckRole,
    KillPrevious,
    Identify,
    Required,
    Optional,
    /// Gives the connection a name, which servers before Redis 7.2 do not know.
    Name,
}

/// Returns the requests that log in.
pub(super) fn login(
    login: Option<&Login>,
    database: i64,
    needs_resp3: bool,
) -> impl Iterator<Item = (Purpose, Cmd)> {
    let login = login.map(|(user, password)| (&**user, &**password));
    let login = match (needs_resp3, login) {
        (true, None) => Some((Purpose::Hello, command(&["HELLO", "3"]))),
        (true, Some((user, password))) => {
            let user = if user.is_empty() { "default" } else { user };
            let hello = command(&["HELLO", "3", "AUTH", user, password]);
            Some((Purpose::Hello, hello))
        }
        (false, None) => None,
        // A proxy may know only passwords.
        (false, Some(("", password))) => Some((Purpose::Auth, command(&["AUTH", password]))),
        (false, Some((user, password))) => {
            Some((Purpose::Auth, command(&["AUTH", user, password])))
        }
    };
    let select = || (Purpose::Select, command(&["SELECT", &database.to_string()]));
    login.into_iter().chain((database != 0).then(select))
}

/// Returns the requests that name the connection.
pub(super) fn names() -> [(Purpose, Cmd); 2] {
    [
        ["LIB-NAME", "lock-runtime"],
        ["LIB-VER", env!("CARGO_PKG_VERSION")],
    ]
    .map(|[name, value]| (Purpose::Name, command(&["CLIENT", "SETINFO", name, value])))
}

/// Returns why a connection is not made, since the server has refused a request for that purpose.
pub(super) fn refused(purpose: Purpose, error: RedisError) -> EngineError {
    let is_permanent = error_kind(&error) == EngineErrorKind::Rejected && !is_turned_away(&error);
    match purpose {
        Purpose::Hello if is_general(&error) => {
            let words = format!(
                "the server does not support RESP3, which grants require ({error}); use Redis 6 or newer, and no \
                 proxy that knows only older protocols"
            );
            EngineError::new(EngineErrorKind::Rejected, words)
        }
        // Servers before Redis 6 have words of their own for a wrong password.
        Purpose::Auth if is_permanent => with_message(EngineErrorKind::Rejected, error),
        Purpose::Select if is_permanent => {
            let why = error.detail().unwrap_or("no reason given").to_owned();
            let error = (error.kind(), "the server refuses the database", why);
            EngineError::new(EngineErrorKind::Rejected, RedisError::from(error))
        }
        Purpose::CheckRole if error.code() == Some("NOPERM") => {
            EngineError::new(EngineErrorKind::Rejected, error)
        }
        _ => connect_error(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::parse_redis_value;

    #[test]
    fn a_connection_logs_in_with_its_first_requests() {
        let own = |user: &str| Some((user.to_owned(), "p w".to_owned()));
        for (from, database, needs_resp3, expected) in [
            (None, 0, false, &[][..]),
            (None, 3, false, &["SELECT 3"]),
            (None, 0, true, &["HELLO 3"]),
            (own(""), 0, false, &["AUTH|p w"]),
            (own("app"), 3, false, &["AUTH app|p w", "SELECT 3"]),
            (own(""), 0, true, &["HELLO 3 AUTH default|p w"]),
            (own("app"), 3, true, &["HELLO 3 AUTH app|p w", "SELECT 3"]),
        ] {
            let requests = login(from.as_ref(), database, needs_resp3);
            let requests: Vec<_> = requests.map(|(_, it)| it.get_packed_command()).collect();
            let words = |expected: &&str| {
                let (words, password) = expected.split_once('|').unwrap_or((expected, ""));
                let password = Some(password).filter(|password| !password.is_empty());
                let words: Vec<_> = words.split(' ').chain(password).collect();
                command(&words).get_packed_command()
            };
            assert_eq!(requests, expected.iter().map(words).collect::<Vec<_>>());
        }
    }

    #[test]
    fn only_what_may_pass_is_no_rejection() {
        use EngineErrorKind::{NotConnected, Rejected};
        use Purpose::{Auth, CheckRole, Hello, Required, Select};

        for (purpose, error, kind, words) in [
            (
                Hello,
                "NOPROTO unsupported protocol version",
                Rejected,
                "RESP3",
            ),
            (Hello, "ERR unknown command `HELLO`", Rejected, "RESP3"),
            (
                Hello,
                "WRONGPASS invalid username-password pair",
                Rejected,
                "WRONGPASS",
            ),
            (
                Hello,
                "ERR max number of clients reached",
                NotConnected,
                "max number",
            ),
            (
                Auth,
                "WRONGPASS invalid username-password pair",
                Rejected,
                "WRONGPASS",
            ),
            (Auth, "ERR invalid password", Rejected, "invalid password"),
            (
                Auth,
                "ERR max number of clients reached",
                NotConnected,
                "max number",
            ),
            (
                Auth,
                "DENIED Redis is running in protected mode",
                NotConnected,
                "protected mode",
            ),
            (
                Select,
                "ERR DB index is out of range",
                Rejected,
                "refuses the database",
            ),
            (
                Select,
                "NOPERM no permission to run 'select'",
                Rejected,
                "'select'",
            ),
            (
                Select,
                "NOAUTH Authentication required.",
                Rejected,
                "Authentication required",
            ),
            (
                Select,
                "LOADING Redis is loading",
                NotConnected,
                "is loading",
            ),
            (
                CheckRole,
                "NOPERM no permission to run 'role'",
                Rejected,
                "'role'",
            ),
            (
                Required,
                "NOAUTH Authentication required.",
                Rejected,
                "Authentication required",
            ),
            (
                Required,
                "NOPERM no permission",
                NotConnected,
                "no permission",
            ),
        ] {
            let reply = parse_redis_value(format!("-{error}\r\n").as_bytes()).unwrap();
            let error = refused(purpose, reply.extract_error().unwrap_err());
            assert!(
                error.kind == kind && error.to_string().contains(words),
                "{error:?}"
            );
        }
    }
}
