//! Asks all processes, or recalls locks from one: messages on channels to which they listen.

use crate::engine::error::EngineError;
use crate::engine::postgres::PostgresEngine;
use crate::engine::postgres::keys::stored;
use crate::engine::postgres::wire::statements::NOTIFY;
use crate::engine::postgres::wire::values::parameter;
use crate::engine::recall::Recall;
use crate::process::ProcessId;
use tokio::time::Instant;
use tokio_postgres::types::Type;

impl PostgresEngine {
    pub(crate) async fn ask(&self, text: &str, deadline: Instant) -> Result<(), EngineError> {
        let message = format!("{} {text}", self.address.schema.asks());
        self.notify(vec![message], deadline).await
    }

    pub(crate) async fn recall(
        &self,
        from: ProcessId,
        recalls: &[Recall],
        deadline: Instant,
    ) -> Result<(), EngineError> {
        let channel = self.address.schema.recalls(from);
        let message = |it: &Recall| {
            let name = stored(&it.name).into();
            let recall = Recall { name, ..it.clone() };
            format!("{channel} recall {recall}")
        };
        let messages = recalls.iter().map(message).collect();
        self.notify(messages, deadline).await
    }

    async fn notify(&self, messages: Vec<String>, deadline: Instant) -> Result<(), EngineError> {
        let parameters = vec![parameter(messages, Type::TEXT_ARRAY)];
        let row = self.requests.row(NOTIFY, parameters, None, deadline);
        row.await.map(drop)
    }
}
