//! Asks whether the server accepts writes to the table of locks now.

use crate::engine::error::EngineError;
use crate::engine::postgres::PostgresEngine;
use crate::engine::postgres::wire::statements::PING;
use tokio::time::Instant;

impl PostgresEngine {
    pub(crate) async fn ping(&self, deadline: Instant) -> Result<(), EngineError> {
        let row = self.requests.row(PING, Vec::new(), None, deadline);
        row.await.map(drop)
    }
}
