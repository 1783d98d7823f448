//! Asks all processes that listen, or recalls locks from one, by messages to their channels.

use crate::engine::error::EngineError;
use crate::engine::recall::Recall;
use crate::engine::redis::RedisEngine;
use crate::engine::redis::conn::request::Via;
use crate::engine::redis::wire::encode::command;
use crate::process::ProcessId;
use crate::util::join_all::join_all;
use redis::Value;
use tokio::time::Instant;

impl RedisEngine {
    /// Sends a text to all processes that listen. A cluster forwards it to all of its nodes.
    pub(crate) async fn ask(&self, text: &str, deadline: Instant) -> Result<(), EngineError> {
        self.publish(&self.keys.asks(), text, deadline).await
    }

    pub(crate) async fn recall(
        &self,
        from: ProcessId,
        recalls: &[Recall],
        deadline: Instant,
    ) -> Result<(), EngineError> {
        let channel = self.keys.recalls(from);
        let publish = async |it: &Recall| {
            let text = format!("recall {it}");
            self.publish(&channel, &text, deadline).await
        };
        join_all(recalls.iter().map(publish))
            .await
            .into_iter()
            .collect()
    }

    async fn publish(
        &self,
        channel: &str,
        text: &str,
        deadline: Instant,
    ) -> Result<(), EngineError> {
        let publish = command(&["PUBLISH", channel, text]);
        let published = self.command::<Value>(Via::IoThread, channel, publish, deadline);
        published.await.map(drop)
    }
}
