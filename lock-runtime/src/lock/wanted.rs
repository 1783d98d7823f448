//! Waits until another process waits for a lock that is held.

use crate::lock::handoff::HoldGuard;
use crate::lock::inspect::viewed;
use crate::util::time::{deadline_in, timeout_at};
use std::time::Duration;

/// The time between two looks at a lock of which no recall is heard.
const LOOK: Duration = Duration::from_secs(1);

/// Waits until another process waits for the lock of one of these guards, or until one is lost.
pub(crate) async fn wanted(guards: &[&HoldGuard]) {
    let Some(recalls) = guards.first().map(|guard| &guard.queues().recalls) else {
        return;
    };
    let is_over = |guard: &&HoldGuard| guard.is_recalled() || guard.hold().check_lost().is_some();
    // Of several keys one is looked at in turn, whatever their number.
    for guard in guards.iter().cycle() {
        let arrived = recalls.arrived.notified();
        if guards.iter().any(is_over) || guard.is_waited_for().await {
            return;
        }
        let _ = timeout_at(deadline_in(LOOK), arrived).await;
    }
}

impl HoldGuard {
    fn is_recalled(&self) -> bool {
        let hold = self.hold();
        self.queues().is_recalled(&hold.name, hold.token())
    }

    /// Looks at the server, unless another process that waits recalls the lock.
    async fn is_waited_for(&self) -> bool {
        let (hold, context) = (self.hold(), self.hold().context());
        if hold.token().is_recallable() && context.engine.hears_recalls() {
            return false;
        }
        let own = Some(context.process);
        match viewed(context, &hold.name).await {
            Ok(lock) => lock.waiters().iter().any(|waiter| waiter.process() != own),
            // A later look may succeed.
            Err(_) => false,
        }
    }
}
