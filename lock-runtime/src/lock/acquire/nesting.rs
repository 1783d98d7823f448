//! Calls from a body that runs under the same lock.

use crate::error::LockError;
use crate::limit::Limit;
use crate::lock::acquire::Acquire;
use crate::lock::handoff::{HoldGuard, Turn};
use crate::lock::record::wait::WaitRecord;
use crate::lock::scope::OuterHold;
use std::sync::Arc;
use tokio::sync::RwLock;
use tokio::time::Instant;

impl Acquire {
    /// Fails if the running body holds the lock, and would wait for its own end.
    pub(crate) fn check_nesting(&self) -> Result<(), LockError> {
        // A body that continues after a loss holds nothing.
        let Some(outer) = self
            .outer_hold()
            .filter(|outer| outer.hold.check_lost().is_none())
        else {
            return Ok(());
        };
        let covers = outer.covers(self.options.limit);
        if covers && self.options.reentrant {
            return Ok(());
        }
        if self.wait.is_zero() {
            return Err(self.busy());
        }
        Err(LockError::WouldDeadlock {
            key: self.inner.context.key_of(&self.name).into(),
            upgrade: !covers,
        })
    }

    pub(super) fn outer_hold(&self) -> Option<OuterHold> {
        OuterHold::find(self.inner.shared.manager(), &self.name)
    }

    /// Joins the hold under which the running body runs. Its nested calls take turns; those that read have
    /// theirs together.
    pub(super) async fn acquire_within_body(
        &self,
        deadline: Instant,
    ) -> Result<Option<HoldGuard>, LockError> {
        let Some(outer) = self.outer_hold() else {
            return Ok(None);
        };
        let turn = self.turn(outer.turns(), deadline).await?;
        if !outer.hold.share() {
            let loss = outer.hold.check_lost();
            return loss.map_or_else(|| Err(self.busy()), Err);
        }
        let guard = HoldGuard::joined(outer.hold, self.inner.queues.clone());
        Ok(Some(guard.with_turn(turn)))
    }

    /// Waits until no other nested call is in the way.
    async fn turn(&self, turns: Arc<RwLock<()>>, deadline: Instant) -> Result<Turn, LockError> {
        let reads = self.options.limit == Limit::UNLIMITED;
        let at_once = match reads {
            true => turns.clone().try_read_owned().map(Turn::new),
            false => turns.clone().try_write_owned().map(Turn::new),
        };
        if let Ok(turn) = at_once {
            return Ok(turn);
        }
        let _waits = WaitRecord::begin(&self.inner.context, &self.name, &self.purpose);
        let io = &self.inner.context.io;
        let turn = match reads {
            true => io
                .timeout_at(deadline, turns.read_owned())
                .await
                .map(Turn::new),
            false => io
                .timeout_at(deadline, turns.write_owned())
                .await
                .map(Turn::new),
        };
        turn.map_err(|_| self.busy())
    }
}
