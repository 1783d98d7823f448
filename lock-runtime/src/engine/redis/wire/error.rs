//! Classification of the errors of a server.

use crate::engine::error::{EngineError, EngineErrorKind};
use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind};

/// Returns the server's own error, if there is one.
pub(crate) fn redis_error(error: &EngineError) -> Option<&RedisError> {
    error.source.downcast_ref()
}

/// Returns `true` if the server replied with that kind of error.
pub(crate) fn is_server_error(error: &EngineError, kind: ServerErrorKind) -> bool {
    redis_error(error).is_some_and(|error| error.kind() == ErrorKind::Server(kind))
}

/// Returns `true` if some of the keys are on another node, since their slot is moving there.
pub(crate) fn is_try_again(error: &EngineError) -> bool {
    is_server_error(error, ServerErrorKind::TryAgain)
}

/// Returns `None` if the server rejects a command that it need not know, nor the user be permitted.
/// A rejection that may pass is an error.
pub(crate) fn ok_unless_rejected<T>(reply: RedisResult<T>) -> Result<Option<T>, EngineError> {
    match reply {
        Ok(reply) => Ok(Some(reply)),
        Err(error) if is_auth_error(&error) => Err(connect_error(error)),
        Err(error) if error_kind(&error) == EngineErrorKind::Rejected => Ok(None),
        Err(error) => Err(connect_error(error)),
    }
}

pub(crate) fn unexpected_reply(reply: String) -> EngineError {
    EngineError::new(
        EngineErrorKind::NotReady,
        format!("the server replied {reply}"),
    )
}

/// Returns `true` for an error that the server words as it likes, and whose kind says nothing.
pub(crate) fn is_general(error: &RedisError) -> bool {
    let response = ErrorKind::Server(ServerErrorKind::ResponseError);
    [ErrorKind::Extension, response].contains(&error.kind())
        && !is_auth_error(error)
        && !is_turned_away(error)
}

/// Returns `true` if the server turns the client away, since it has no room or is in protected mode.
pub(crate) fn is_turned_away(error: &RedisError) -> bool {
    let text = error.to_string();
    let turned_away = ["max number of clients", "protected mode"];
    turned_away.iter().any(|words| text.contains(words))
}

/// Returns why a connection could not be made.
pub(crate) fn connect_error(error: RedisError) -> EngineError {
    if is_auth_error(&error) {
        EngineError::new(EngineErrorKind::Rejected, error)
    } else if error.kind() == ErrorKind::Parse {
        not_redis()
    } else {
        with_message(EngineErrorKind::NotConnected, error)
    }
}

/// Returns the error of a server that sends what no Redis server would.
pub(crate) fn not_redis() -> EngineError {
    let words = "the server does not speak the Redis protocol";
    EngineError::new(EngineErrorKind::NotConnected, words)
}

/// Returns the error, with a message of our own if the server gave none.
pub(crate) fn with_message(kind: EngineErrorKind, error: RedisError) -> EngineError {
    let is_message = |text: &str| !text.trim().is_empty();
    if error.code().is_none_or(is_message) || error.detail().is_some_and(is_message) {
        EngineError::new(kind, error)
    } else {
        EngineError::new(kind, "the server returned an error without a message")
    }
}

/// Returns `true` if the server demands a login, or refuses it.
pub(crate) fn is_auth_error(error: &RedisError) -> bool {
    matches!(error.code(), Some("NOAUTH" | "WRONGPASS"))
}

/// Returns `true` if the server is a replica; it may have been a master before.
pub(crate) fn is_replica(error: &RedisError) -> bool {
    matches!(code(error), Some("MASTERDOWN" | "READONLY"))
}

pub(crate) fn error_kind(error: &RedisError) -> EngineErrorKind {
    match code(error) {
        Some(
            "BUSY" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "MISCONF" | "NOREPLICAS"
            | "NOSCRIPT" | "NOTBUSY" | "OOM" | "READONLY" | "TRYAGAIN",
        ) => EngineErrorKind::NotReady,
        _ => EngineErrorKind::Rejected,
    }
}

/// Returns the error code, also of a command that failed within a script, which Redis 6 wraps:
/// `ERR Error running script (call to f_…): @user_script:4: @user_script: 4: -MISCONF Redis is …`.
fn code(error: &RedisError) -> Option<&str> {
    let within = || {
        let detail = error.detail()?.strip_prefix("Error running script")?;
        let (_, inner) = detail.split_once(": -")?;
        inner.split_whitespace().next()
    };
    within().or_else(|| error.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(error: &str) -> String {
        let value = redis::parse_redis_value(format!("-{error}\r\n").as_bytes()).unwrap();
        with_message(
            EngineErrorKind::NotConnected,
            value.extract_error().unwrap_err(),
        )
        .to_string()
    }

    #[test]
    fn errors_that_redis_6_wraps_are_classified_by_the_inner_code() {
        let read = |error: &str| {
            let value = redis::parse_redis_value(format!("-{error}\r\n").as_bytes()).unwrap();
            error_kind(&value.extract_error().unwrap_err())
        };
        let wrapped = |error: &str| {
            let script = "Error running script (call to f_0123456789abcdef)";
            read(&format!(
                "ERR {script}: @user_script:4: @user_script: 4: -{error}"
            ))
        };
        for transient in ["MISCONF Errors writing to the AOF file", "READONLY replica"] {
            assert_eq!(read(transient), EngineErrorKind::NotReady);
            assert_eq!(wrapped(transient), EngineErrorKind::NotReady);
        }
        assert_eq!(
            wrapped("WRONGTYPE Operation against a key"),
            EngineErrorKind::Rejected
        );
        assert_eq!(read("ERR something else"), EngineErrorKind::Rejected);
    }

    #[test]
    fn an_error_without_a_message_gets_one() {
        assert!(message("").contains("without a message"));
        assert!(message(" ").contains("without a message"));
        assert!(message("OOM command not allowed").contains("command not allowed"));
        assert!(message("ERR").len() > 3);
    }
}
