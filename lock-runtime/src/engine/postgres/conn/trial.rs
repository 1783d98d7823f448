//! Tries to wait for a lock: as long as no two callers want one, nothing else shows that it is impossible.

use crate::engine::error::EngineError;
use crate::engine::postgres::sql::schema::Schema;
use crate::engine::postgres::wire::error::connecting;
use tokio_postgres::Client;

/// A holder, a waiter behind it, and a release that hands the lock on; all of it is undone.
const STATEMENTS: &str = include_str!("../sql/trial.sql");

/// Fails if no caller could wait. The connection is of no more use then.
pub(crate) async fn try_waiting(client: &Client, schema: &Schema) -> Result<(), EngineError> {
    let tried = client.batch_execute(&schema.sql(STATEMENTS)).await;
    tried.map_err(|error| {
        let error = connecting(&error);
        let words = format!("no caller could wait for a lock: {error}");
        EngineError::new(error.kind, words)
    })
}
