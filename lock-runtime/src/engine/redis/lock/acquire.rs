//! Acquires locks that are free: with `SET NX`, or a script if they are shared or several.

use crate::engine::background_release::{ReleaseSupervisor, UnansweredAcquire};
use crate::engine::error::EngineError;
use crate::engine::redis::conn::replicas::check_replica_count;
use crate::engine::redis::conn::request::{Reply, Request};
use crate::engine::redis::lock::locks::{Locks, Via};
use crate::engine::redis::wire::error::{is_server_error, is_try_again, unexpected_reply};
use crate::engine::redis::wire::request::granted;
use crate::engine::request::{Acquired, Attempt};
use redis::{ServerErrorKind, Value};
use std::sync::Arc;
use tokio::time::Instant;

impl Locks {
    /// Acquires the lock if it is free, and the others that the attempt names until one is not.
    pub(crate) async fn acquire(
        &self,
        attempt: &Attempt,
        supervisor: &Arc<dyn ReleaseSupervisor>,
        deadline: Instant,
    ) -> Result<Option<Acquired>, EngineError> {
        let request = Request::acquire(attempt, supervisor);
        let reply = match self.router.send(&attempt.name, &request, deadline).await {
            Err(error) if attempt.needs_script() => {
                // Boxed: few servers have forgotten the script.
                let again = self.take_again(&request, attempt, error, deadline);
                match Box::pin(again).await? {
                    Some(reply) => reply,
                    None => return Ok(None),
                }
            }
            reply => reply?,
        };
        acquired(attempt, supervisor, reply)
    }

    /// Repeats the acquisition of a shared lock whose script the server did not know. Returns `None` if the
    /// lock cannot be acquired now without waiting.
    async fn take_again(
        &self,
        request: &Request<'_>,
        attempt: &Attempt,
        error: EngineError,
        deadline: Instant,
    ) -> Result<Option<Reply>, EngineError> {
        if is_try_again(&error) {
            // While the slot moves between nodes, only the lock itself is available, and not its queue.
            return Ok(None);
        }
        if !is_server_error(&error, ServerErrorKind::NoScript) {
            return Err(error);
        }
        let load = self.scripts.take.load();
        let loaded = self.send::<Value>(Via::IoThread, &attempt.name, &load, deadline);
        loaded.await?;
        let reply = self.router.send(&attempt.name, request, deadline).await?;
        Ok(Some(reply))
    }
}

/// Returns what was acquired, or `None` if the first lock was not free.
fn acquired(
    attempt: &Attempt,
    supervisor: &Arc<dyn ReleaseSupervisor>,
    reply: Reply,
) -> Result<Option<Acquired>, EngineError> {
    let token = reply
        .token
        .ok_or_else(|| unexpected_reply("without a token".to_owned()))?;
    let unanswered = UnansweredAcquire::new(attempt, token, supervisor);
    if !matches!(reply.value, Value::Array(_)) {
        return unanswered.answered(Ok(granted(&reply.value)));
    }
    // Unless the replicas have acknowledged them, the locks are released.
    let (taken, known): (Value, u32) = reply.decode()?;
    let acquired = match granted(&taken) {
        0 => Ok(0),
        count => check_replica_count(known, attempt.replicas).map(|()| count),
    };
    unanswered.answered(acquired)
}
