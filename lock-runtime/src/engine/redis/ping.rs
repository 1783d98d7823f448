//! Asks whether the server, or every master of a cluster, accepts writes now.

use crate::engine::error::EngineError;
use crate::engine::redis::RedisEngine;
use crate::engine::redis::conn::request::Via;
use crate::engine::redis::wire::encode::command;
use crate::util::join_all::join_all;
use redis::Value;
use tokio::time::Instant;

impl RedisEngine {
    /// Sends each master a write that changes nothing: its key never exists. A server refuses it where it
    /// refuses locks: if it is a replica, has too few of them, has no memory left, or cannot write to its
    /// disk.
    pub(crate) async fn ping(&self, deadline: Instant) -> Result<(), EngineError> {
        let slots = self.router.a_slot_of_each_master().into_iter();
        let pings = slots.map(async |slot| {
            let key = self.keys.never_in(slot);
            let write = command(&["SET", &key, "", "XX"]);
            let reply = self.command::<Value>(Via::Runtime, &key, write, deadline);
            reply.await.map(drop)
        });
        join_all(pings).await.into_iter().collect()
    }
}
