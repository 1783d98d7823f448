//! Turns an exclusive hold into a read hold, in one call.

use crate::engine::error::EngineError;
use crate::engine::postgres::PostgresEngine;
use crate::engine::postgres::keys::stored;
use crate::engine::postgres::wire::values::{duration, get, limit, micros, parameter, text};
use crate::engine::request::Claim;
use crate::engine::token::Token;
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::types::Type;

impl PostgresEngine {
    /// Returns for how long the token `to` holds the lock, if it does.
    pub(crate) async fn downgrade(
        &self,
        claim: &Claim,
        to: Token,
        deadline: Instant,
    ) -> Result<Option<Duration>, EngineError> {
        let parameters = vec![
            parameter(stored(&claim.name).into_owned(), Type::TEXT),
            parameter(text(claim.token), Type::TEXT),
            parameter(text(to), Type::TEXT),
            parameter(limit(to), Type::INT4),
            parameter(micros(claim.ttl), Type::INT8),
        ];
        let statement = "SELECT * FROM distributed_lock.downgrade_1($1, $2, $3, $4, $5)";
        let row = self
            .requests
            .row(statement, parameters, None, deadline)
            .await?;
        let left: Option<i64> = get(&row, "time_left")?;
        Ok(left.map(duration))
    }
}
