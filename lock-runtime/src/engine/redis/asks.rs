//! Asks all processes that listen, by a message to their common channel.

use crate::engine::error::EngineError;
use crate::engine::redis::conn::request::Via;
use crate::engine::redis::lock::locks::Locks;
use redis::Value;
use tokio::time::Instant;

impl Locks {
    /// Begins to receive what others ask, on the connection that receives grants.
    pub(crate) fn listen(&self) {
        self.subscription.begin();
    }

    /// Sends a text to all processes that listen. A cluster forwards it to all of its nodes.
    pub(crate) async fn ask(&self, text: &str, deadline: Instant) -> Result<(), EngineError> {
        let channel = self.keys.asks();
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(&channel).arg(text);
        let published = self.command::<Value>(Via::IoThread, &channel, publish, deadline);
        published.await.map(drop)
    }
}
