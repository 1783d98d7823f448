//! Retains a lock without a guard until the end of its `min_hold`, and then releases it.

use crate::engine::error::EngineError;
use crate::engine::request::{Claim, EngineFuture};
use crate::lock::context::Effort;
use crate::lock::hold::{End, Parts};
use crate::util::time::{deadline_in, timeout_at};
use std::sync::Arc;
use std::time::Duration;

/// How long after the end of `min_hold` a lock expires that its process has not released.
const RELEASE_TIME: Duration = Duration::from_millis(500);

impl Parts {
    /// Retains a lock for the rest of its `min_hold`, and then releases it, so that the next waiter enters
    /// before any newcomer. If this process ends first, the lock expires shortly after. Returns `true` if the
    /// claim owned it.
    pub(crate) async fn retain(
        self: &Arc<Self>,
        claim: &Claim,
        rest: Duration,
        effort: Effort,
    ) -> Result<bool, EngineError> {
        let (context, due) = (&self.context, deadline_in(rest));
        let claim = Claim {
            ttl: rest + RELEASE_TIME,
            ..claim.clone()
        };
        let renew = |deadline| -> EngineFuture<'_, bool> {
            let renewed = context.engine.renew(std::slice::from_ref(&claim), deadline);
            Box::pin(async move { renewed.await?.pop().unwrap_or(Ok(false)) })
        };
        let renewed = context.retry(effort, renew).await;
        if !matches!(renewed, Ok((true, _))) {
            self.releaser.forget(&claim);
            return renewed.map(|_| false);
        }
        let end = self.table.retain(&claim);
        let retained = RetainedLock {
            shared: self.clone(),
            claim,
        };
        // A task, not a hold of the watchdog: neither a shutdown nor the end of the manager ends it.
        context.io.spawn_detached(async move {
            let _ = timeout_at(due, end.notified()).await;
            drop(retained);
        });
        Ok(true)
    }

    /// Does the same in the background. If the server does not confirm it in that time, the lock is released.
    pub(crate) fn retain_in_background(self: &Arc<Self>, claim: Claim, rest: Duration) {
        let this = self.clone();
        self.context.tasks.spawn(async move {
            let effort = Effort::InBackground {
                deadline: deadline_in(rest),
                ttl: rest,
            };
            if this.retain(&claim, rest, effort).await.is_err() {
                this.releaser
                    .release_until_confirmed(&claim, false, true)
                    .await;
            }
        });
    }
}

/// Releases the lock when it is dropped.
struct RetainedLock {
    shared: Arc<Parts>,
    claim: Claim,
}

impl Drop for RetainedLock {
    fn drop(&mut self) {
        let Claim { name, token, .. } = &self.claim;
        let releaser = &self.shared.releaser;
        releaser.release_in_background(self.claim.clone(), false);
        self.shared.table.end(name, *token, End::Over);
    }
}
