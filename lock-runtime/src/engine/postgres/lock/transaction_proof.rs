//! Makes the proof with which a transaction of the same database fails unless locks are still held.

use crate::engine::error::EngineError;
use crate::engine::postgres::PostgresEngine;
use crate::engine::postgres::keys::stored;
use crate::engine::postgres::wire::values::{get, parameter, text};
use crate::engine::request::Claim;
use crate::transaction_proof::TransactionProof;
use tokio::time::Instant;
use tokio_postgres::types::Type;

impl PostgresEngine {
    /// Returns the proof, if all locks are held: their names, and the numbers of their holders.
    pub(crate) async fn prove(
        &self,
        claims: &[Claim],
        deadline: Instant,
    ) -> Result<Option<TransactionProof>, EngineError> {
        let names: Vec<String> = claims.iter().map(|it| stored(&it.name).into()).collect();
        let tokens: Vec<String> = claims.iter().map(|claim| text(claim.token)).collect();
        let parameters = vec![
            parameter(names.clone(), Type::TEXT_ARRAY),
            parameter(tokens, Type::TEXT_ARRAY),
        ];
        let statement = "SELECT distributed_lock.numbers_1($1, $2) AS numbers";
        let row = self
            .requests
            .row(statement, parameters, None, deadline)
            .await?;
        let numbers: Option<Vec<i64>> = get(&row, "numbers")?;
        let statement = self
            .address
            .schema
            .sql("SELECT distributed_lock.ensure($1, $2)");
        Ok(numbers.map(|numbers| TransactionProof::new(statement, names, numbers)))
    }
}
