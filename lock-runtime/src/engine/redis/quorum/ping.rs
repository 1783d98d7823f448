//! Asks whether a majority of the members would grant a lock now.

use crate::engine::error::EngineError;
use crate::engine::redis::quorum::QuorumEngine;
use tokio::time::Instant;

impl QuorumEngine {
    pub(crate) async fn ping(&self, deadline: Instant) -> Result<(), EngineError> {
        let members = &self.members;
        let replies = members.ask_all(|member| {
            let members = members.clone();
            async move { members.list[member].ping(deadline).await }
        });
        let read = |reply: Result<(), EngineError>| reply.map(|()| true);
        let collected = members.collect(replies, deadline, read).await;
        match collected.decided() {
            Some(_) => Ok(()),
            None => Err(collected.error(&members.list, "accepts locks", "")),
        }
    }
}
