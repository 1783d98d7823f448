//! Asks whether the store would take a write now.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::store::StoreEngine;
use crate::own_store::Swapped;
use tokio::time::Instant;
use uuid::Uuid;

impl StoreEngine {
    /// Inserts a record, and deletes it.
    pub(crate) async fn ping(&self, deadline: Instant) -> Result<(), EngineError> {
        let (core, name) = (&self.core, self.core.keys.trial(self.core.process));
        let record = Uuid::new_v4().into_bytes();
        let inserted = core.replace(&name, None, Some(&record), deadline);
        let version = match inserted.await? {
            Swapped::Done(version) => version,
            // A ping that was given up has left it.
            Swapped::Conflict(found) => match found.found {
                Some((_, version)) => version,
                None => return Err(wrong("it refused to insert a record, and has none")),
            },
        };
        let deleted = core.replace(&name, Some(&version), None, deadline);
        deleted.await.map(drop)
    }
}

fn wrong(words: &'static str) -> EngineError {
    EngineError::new(EngineErrorKind::Rejected, words)
}
