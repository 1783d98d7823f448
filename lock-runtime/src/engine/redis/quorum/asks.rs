//! Asks all processes that listen, by way of all members.

use crate::engine::error::EngineError;
use crate::engine::redis::quorum::QuorumEngine;
use crate::engine::redis::quorum::replies::Replies;
use tokio::time::Instant;

impl QuorumEngine {
    /// Sends a text to all processes that listen. One member suffices, since they listen to all; the others
    /// are asked meanwhile.
    pub(crate) async fn ask(&self, text: &str, deadline: Instant) -> Result<(), EngineError> {
        let members = &self.members;
        let mut arriving = members.ask_all(|member| {
            let (members, text) = (members.clone(), text.to_owned());
            async move { members.list[member].ask(&text, deadline).await }
        });
        let mut replies = Replies::new(members.count());
        while let Ok(Some((member, reply))) = members.io.timeout_at(deadline, arriving.recv()).await
        {
            if reply.is_ok() {
                return Ok(());
            }
            replies.record(member, reply.map(|()| true));
        }
        Err(replies.error(&members.list, "asked", ""))
    }
}
