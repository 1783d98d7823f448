//! Asks all processes that listen, by a message to their common channel.

use crate::engine::error::EngineError;
use crate::engine::redis::RedisEngine;
use crate::engine::redis::conn::request::Via;
use crate::engine::redis::wire::encode::command;
use redis::Value;
use tokio::time::Instant;

impl RedisEngine {
    /// Sends a text to all processes that listen. A cluster forwards it to all of its nodes.
    pub(crate) async fn ask(&self, text: &str, deadline: Instant) -> Result<(), EngineError> {
        let channel = self.keys.asks();
        let publish = command(&["PUBLISH", &channel, text]);
        let published = self.command::<Value>(Via::IoThread, &channel, publish, deadline);
        published.await.map(drop)
    }
}
