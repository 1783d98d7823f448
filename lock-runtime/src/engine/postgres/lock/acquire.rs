//! Acquires locks that are free: all those of an attempt in one call.

use crate::engine::background_release::{AwaitedAcquire, ReleaseSupervisor};
use crate::engine::error::EngineError;
use crate::engine::postgres::PostgresEngine;
use crate::engine::postgres::conn::batch::request::{Acquire, Request};
use crate::engine::postgres::keys::stored;
use crate::engine::postgres::wire::values::{micros, replicas};
use crate::engine::request::{Acquired, Attempt};
use crate::engine::token::Draw;
use std::sync::Arc;
use tokio::time::Instant;

impl PostgresEngine {
    pub(crate) async fn acquire(
        &self,
        attempt: &Attempt,
        supervisor: &Arc<dyn ReleaseSupervisor>,
        deadline: Instant,
    ) -> Result<Option<Acquired>, EngineError> {
        let token = attempt.token(Draw::now());
        let awaited = AwaitedAcquire::new(attempt, token, supervisor);
        let request = |reply| {
            Request::Acquire(Acquire {
                names: attempt.names().map(|name| stored(name).into()).collect(),
                tokens: attempt.claims(token).map(|claim| claim.token).collect(),
                ttl: micros(attempt.ttl),
                replicas: replicas(attempt.replicas),
                reply,
            })
        };
        let acquired = self.requests.send(request, deadline).await;
        awaited.replied(acquired)
    }
}
