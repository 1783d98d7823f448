//! Asks all processes that listen, or recalls locks from one, by way of all members.

use crate::engine::error::EngineError;
use crate::engine::recall::Recall;
use crate::engine::redis::quorum::QuorumEngine;
use crate::engine::redis::quorum::member::Member;
use crate::engine::redis::quorum::replies::Replies;
use crate::process::ProcessId;
use std::future::Future;
use std::sync::Arc;
use tokio::time::Instant;

impl QuorumEngine {
    pub(crate) async fn ask(&self, text: &str, deadline: Instant) -> Result<(), EngineError> {
        let text: Arc<str> = text.into();
        let send = move |member: Arc<dyn Member>| {
            let text = text.clone();
            async move { member.ask(&text, deadline).await }
        };
        self.send(send, deadline).await
    }

    pub(crate) async fn recall(
        &self,
        from: ProcessId,
        recalls: &[Recall],
        deadline: Instant,
    ) -> Result<(), EngineError> {
        let recalls: Arc<[Recall]> = recalls.into();
        let send = move |member: Arc<dyn Member>| {
            let recalls = recalls.clone();
            async move { member.recall(from, &recalls, deadline).await }
        };
        self.send(send, deadline).await
    }

    /// Sends a message by way of all members. One suffices, since processes listen to all; the others are
    /// asked meanwhile.
    async fn send<F>(
        &self,
        send: impl Fn(Arc<dyn Member>) -> F,
        deadline: Instant,
    ) -> Result<(), EngineError>
    where
        F: Future<Output = Result<(), EngineError>> + Send + 'static,
    {
        let members = &self.members;
        let mut arriving = members.ask_all(|member| send(members.list[member].clone()));
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
