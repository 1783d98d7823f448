//! Asks for the fencing token of a lock: `number_1` of `sql/schema.sql` draws it from a sequence.

use crate::engine::error::EngineError;
use crate::engine::postgres::PostgresEngine;
use crate::engine::postgres::keys::stored;
use crate::engine::postgres::wire::values::{get, parameter, text};
use crate::engine::request::Claim;
use tokio::time::Instant;
use tokio_postgres::types::Type;

impl PostgresEngine {
    /// Returns the fencing token, if the lock is held.
    pub(crate) async fn fencing_token(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<Option<u64>, EngineError> {
        let parameters = vec![
            parameter(stored(&claim.name).into_owned(), Type::TEXT),
            parameter(text(claim.token), Type::TEXT),
        ];
        let statement = "SELECT distributed_lock.fence_1($1, $2) AS mark";
        let row = self
            .requests
            .row(statement, parameters, None, deadline)
            .await?;
        let mark: Option<i64> = get(&row, "mark")?;
        Ok(mark.and_then(|mark| u64::try_from(mark).ok()))
    }
}
