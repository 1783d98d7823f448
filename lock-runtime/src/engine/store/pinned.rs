//! Holders with proofs: whoever removes one ends its proof before, and can't while a transaction has it.

use crate::engine::common::batches::Request;
use crate::engine::error::EngineError;
use crate::engine::store::core::Core;
use crate::engine::store::errand::{Errand, Start};
use crate::engine::store::known::Known;
use crate::engine::store::machine::{Command, Reply};
use crate::engine::store::record::Record;
use crate::engine::token::Token;
use crate::util::time::deadline_in;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// How often a process looks whether a transaction has ended that keeps a lock which it has released.
const LOOK: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(2);

impl Core {
    /// Returns the proofs of those holders that the commands would remove.
    pub(crate) fn doomed(&self, known: &Known, batch: &[Request<Errand, Reply>]) -> Vec<u64> {
        let proven = known.record.holders.iter().map(|it| it.proof);
        let proven: Vec<_> = proven.filter(|proof| *proof != 0).collect();
        if proven.is_empty() {
            return proven;
        }
        let mut after = known.record.clone();
        let judge = self.judge(known);
        for request in batch.iter().filter(|it| it.is_awaited()) {
            after.step(&judge, request.what.command);
        }
        let stays = |proof| {
            let mut holders = after.holders.iter();
            holders.any(|it| it.proof == proof && !it.left)
        };
        proven.into_iter().filter(|proof| !stays(*proof)).collect()
    }

    /// Ends proofs. Returns those that have ended. That one can't be ended concerns those who ask for the
    /// lock; others leave its holder where it is.
    pub(crate) async fn end_proofs(
        &self,
        name: &Arc<str>,
        doomed: Vec<u64>,
        batch: &[Request<Errand, Reply>],
        deadline: Instant,
    ) -> Result<Vec<u64>, EngineError> {
        let mut ended = Vec::new();
        let Some(database) = &self.database else {
            return Ok(ended);
        };
        for proof in doomed {
            match self.by(deadline, database.end(name, proof)).await {
                Ok(true) => ended.push(proof),
                Err(error) if batch.iter().all(|it| it.what.command.asks()) => return Err(error),
                Ok(false) | Err(_) => {}
            }
        }
        Ok(ended)
    }

    /// Returns `true` if a transaction keeps a lock for that holder, which has left.
    pub(crate) fn is_pinned(&self, name: &str, token: Token) -> bool {
        let keeps = |record: &Record| record.holders.iter().any(|it| it.left && it.token == token);
        self.known.is_so(name, keeps)
    }

    /// Hands a lock on that was released, once the transaction has ended which keeps it.
    pub(crate) fn hand_on(self: &Arc<Self>, name: &Arc<str>, token: Token) {
        if self.is_pinned(name, token) {
            let (core, name) = (Arc::downgrade(self), name.clone());
            self.io.spawn_detached(leave(core, name, token));
        }
    }
}

async fn leave(core: Weak<Core>, name: Arc<str>, token: Token) {
    while let Some(core) = core.upgrade()
        && core.is_pinned(&name, token)
    {
        let io = core.io;
        let deadline = deadline_in(PATIENCE);
        let left = core.run(&name, Command::Leave(token), Start::Known, deadline);
        if left.await.is_err_and(|error| !error.is_retryable()) {
            return;
        }
        drop(core);
        io.sleep_until(deadline_in(LOOK)).await;
    }
}
