//! Acquires locks that are free: with `SET NX`, or a script if they are shared or several.

use crate::engine::background_release::ReleaseSupervisor;
use crate::engine::error::EngineError;
use crate::engine::redis::RedisEngine;
use crate::engine::redis::conn::replicas::check_replica_count;
use crate::engine::redis::conn::request::{Content, Envelope, Reply, Via};
use crate::engine::redis::wire::error::is_try_again;
use crate::engine::redis::wire::reply::{decode, granted};
use crate::engine::request::{Acquired, Attempt};
use redis::Value;
use std::sync::Arc;
use tokio::time::Instant;

impl RedisEngine {
    /// Acquires the lock if it is free, and the others that the attempt names until one is not. Returns
    /// `None` if the first is not free.
    pub(crate) async fn acquire(
        &self,
        attempt: &Attempt,
        supervisor: &Arc<dyn ReleaseSupervisor>,
        deadline: Instant,
    ) -> Result<Option<Acquired>, EngineError> {
        let via = match attempt.replicas {
            0 => Via::Runtime,
            replicas => Via::Replicas(replicas),
        };
        let envelope = Envelope {
            supervisor: Some(supervisor),
            ..Content::Acquire(attempt).by(via, deadline)
        };
        let reply = match self.router.send(&attempt.name, &envelope).await {
            // Boxed: few scripts fail.
            Err(error) if attempt.needs_script() => {
                match Box::pin(self.send_source(&attempt.name, &envelope, error)).await {
                    // While the slot moves between nodes, only the lock itself is available, and not its
                    // queue.
                    Err(error) if is_try_again(&error) => return Ok(None),
                    reply => reply?,
                }
            }
            reply => reply?,
        };
        let Reply { value, acquired } = reply;
        let Some(acquired) = acquired else {
            return Ok(None);
        };
        acquired.replied(match attempt.replicas {
            0 => Ok(granted(&value)),
            // Unless the replicas have acknowledged them, the locks are released.
            wanted => {
                let (taken, known): (Value, u32) = decode(value)?;
                check_replica_count(known, wanted).map(|()| granted(&taken))
            }
        })
    }
}
