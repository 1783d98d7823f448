//! Waits until another process waits for a lock that is held.

use crate::lock::handoff::HoldGuard;
use crate::lock::inspect::viewed;
use crate::util::time::{deadline_in, timeout_at};
use std::time::Duration;
use tokio::time::Instant;

/// The time between two looks at the server: not all that wait recall the lock.
const LOOK: Duration = Duration::from_secs(1);

/// Waits until another process waits for the lock of one of these guards, or until one is lost.
pub(crate) async fn wanted(guards: &[&HoldGuard]) {
    // Of several keys one is looked at in turn, whatever their number.
    for guard in guards.iter().cycle() {
        if guard.is_waited_for().await || is_told_by(guards, deadline_in(LOOK)).await {
            return;
        }
    }
}

/// Returns `true` if this process hears by the deadline that one of the locks is recalled, or lost.
async fn is_told_by(guards: &[&HoldGuard], deadline: Instant) -> bool {
    let Some(recalls) = guards.first().map(|guard| &guard.queues().recalls) else {
        return true;
    };
    let is_over = |guard: &&HoldGuard| guard.is_recalled() || guard.hold().check_lost().is_some();
    loop {
        let arrived = recalls.arrived.notified();
        if guards.iter().any(is_over) {
            return true;
        }
        if timeout_at(deadline, arrived).await.is_err() {
            return false;
        }
    }
}

impl HoldGuard {
    fn is_recalled(&self) -> bool {
        let hold = self.hold();
        self.queues().is_recalled(&hold.name, hold.token())
    }

    async fn is_waited_for(&self) -> bool {
        let (hold, context) = (self.hold(), self.hold().context());
        let own = Some(context.process);
        match viewed(context, &hold.name).await {
            Ok(lock) => lock.waiters().iter().any(|waiter| waiter.process() != own),
            // A later look may succeed.
            Err(_) => false,
        }
    }
}
