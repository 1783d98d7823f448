//! Values as the tables and functions of the schema have them.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::token::Token;
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql, Type};

/// The value of a request's parameter, with its type.
pub(crate) type Parameter = (Box<dyn ToSql + Send + Sync>, Type);

/// The values of a statement's parameters, with their types.
pub(crate) type Parameters<'a> = [(&'a (dyn ToSql + Sync), Type)];

/// Returns a token as the tables store it.
pub(crate) fn text(token: Token) -> String {
    token.encode(&mut [0; 37]).to_owned()
}

/// Returns the limit of a token as the tables store it.
pub(crate) fn limit(token: Token) -> i32 {
    token.limit().number().map_or(1, i32::from)
}

/// Returns a time in microseconds.
pub(crate) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

pub(crate) fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}

pub(crate) fn replicas(replicas: u32) -> i32 {
    i32::try_from(replicas).unwrap_or(i32::MAX)
}

/// Returns a parameter of a request.
pub(crate) fn parameter(value: impl ToSql + Send + Sync + 'static, of: Type) -> Parameter {
    (Box::new(value), of)
}

/// Returns the column of that name.
pub(crate) fn get<'r, T: FromSql<'r>>(row: &'r Row, name: &str) -> Result<T, EngineError> {
    row.try_get(name)
        .map_err(|error| unexpected(&error.to_string()))
}

/// Returns the error of a reply that makes no sense.
pub(crate) fn unexpected(reply: &str) -> EngineError {
    let words = format!("the server replied with {reply}");
    EngineError::new(EngineErrorKind::Indeterminate, words)
}
