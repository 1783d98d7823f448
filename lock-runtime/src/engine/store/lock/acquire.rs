//! Acquiring locks that are free.

use crate::engine::background_release::{AwaitedAcquire, ReleaseSupervisor};
use crate::engine::error::EngineError;
use crate::engine::request::{Acquired, Attempt};
use crate::engine::store::StoreEngine;
use crate::engine::store::errand::Start;
use crate::engine::store::machine::{Command, Reply, Want};
use crate::engine::token::Draw;
use std::sync::Arc;
use tokio::time::Instant;

impl StoreEngine {
    pub(crate) async fn acquire(
        &self,
        attempt: &Attempt,
        supervisor: &Arc<dyn ReleaseSupervisor>,
        deadline: Instant,
    ) -> Result<Option<Acquired>, EngineError> {
        let token = attempt.token(Draw::now());
        let tries = Command::Try(Want::of(&attempt.claim(token)));
        let awaited = AwaitedAcquire::new(attempt, token, supervisor);
        let reply = self
            .core
            .run(&attempt.name, tries, Start::New, deadline)
            .await;
        awaited.replied(reply.map(|reply| usize::from(reply == Reply::Held)))
    }
}
