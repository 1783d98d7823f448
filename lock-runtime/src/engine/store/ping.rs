//! Asks whether the store would take a write now.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::store::StoreEngine;
use crate::own_store::Swapped;
use tokio::time::Instant;
use uuid::Uuid;

/// How many other pings may come between.
const TRIES: u32 = 8;

impl StoreEngine {
    /// Inserts a record, and deletes it.
    pub(crate) async fn ping(&self, deadline: Instant) -> Result<(), EngineError> {
        let (core, name) = (&self.core, self.core.keys.trial(self.core.process));
        let record = Uuid::new_v4().into_bytes();
        for _ in 0..TRIES {
            let inserted = core.replace(&name, None, Some(&record), deadline);
            let version = match inserted.await? {
                Swapped::Done(version) => Some(version),
                // A ping that was given up has left it; or another one was under way, and has deleted it.
                Swapped::Conflict(found) => found.found.map(|(_, version)| version),
            };
            if version.is_some() {
                let deleted = core.replace(&name, version.as_ref(), None, deadline);
                return deleted.await.map(drop);
            }
        }
        let words = "it refuses to insert a record, and has none";
        Err(EngineError::new(EngineErrorKind::Rejected, words))
    }
}
