//! Asks all processes: a message on a channel to which each of them listens.

use crate::engine::error::EngineError;
use crate::engine::postgres::PostgresEngine;
use crate::engine::postgres::wire::statements::NOTIFY;
use crate::engine::postgres::wire::values::parameter;
use tokio::time::Instant;
use tokio_postgres::types::Type;

impl PostgresEngine {
    pub(crate) async fn ask(&self, text: &str, deadline: Instant) -> Result<(), EngineError> {
        let message = format!("{} {text}", self.address.schema.asks());
        let parameters = vec![parameter(vec![message], Type::TEXT_ARRAY)];
        let row = self.requests.row(NOTIFY, parameters, None, deadline);
        row.await.map(drop)
    }
}
