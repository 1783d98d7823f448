//! Waits until another process waits for a lock that is held.

use crate::engine::recall::Recall;
use crate::lock::handoff::HoldGuard;
use crate::lock::inspect::viewed;
use crate::lock::on_recalled::on_recalled;
use crate::util::sync::Mutex;
use crate::util::time::now;
use std::time::Duration;
use tokio::time::Instant;

/// The time between two looks at the server.
const LOOK: Duration = Duration::from_secs(1);

/// When the server is looked at for one guard: not all that wait recall the lock. The pace lasts from one
/// wait to the next, since a `select!` in a loop begins one for each message.
#[derive(Default)]
pub(crate) struct Looks(Mutex<Pace>);

#[derive(Default)]
struct Pace {
    due: Option<Instant>,
    count: usize,
}

/// Waits until another process waits for the lock of one of these guards.
pub(crate) async fn wanted(guards: &[&HoldGuard], looks: &Looks) {
    let Some(first) = guards.first() else {
        return;
    };
    let (recalls, io) = (&first.queues().recalls, first.hold().context().io);
    loop {
        let arrived = recalls.arrived.notified();
        if guards.iter().any(|guard| guard.is_recalled()) {
            return;
        }
        let _ = io.timeout_at(looks.go_on(guards), arrived).await;
    }
}

impl Looks {
    /// Begins a look if one is due, of several keys at one in turn. Returns when the next one is due.
    fn go_on(&self, guards: &[&HoldGuard]) -> Instant {
        let (mut pace, now) = (self.0.lock(), now());
        if let Some(due) = pace.due.filter(|due| now < *due) {
            return due;
        }
        if let Some(guard) = guards.get(pace.count % guards.len().max(1)) {
            guard.look();
        }
        pace.count += 1;
        *pace.due.insert(now + LOOK)
    }
}

impl HoldGuard {
    fn is_recalled(&self) -> bool {
        let hold = self.hold();
        self.queues().is_recalled(&hold.name, hold.token())
    }

    /// Looks at the server in the background. If another process waits, that counts as a recall.
    fn look(&self) {
        let (hold, queues) = (self.hold(), self.queues().clone());
        let (context, name, token) = (hold.context().clone(), hold.name.clone(), hold.token());
        hold.context().io.spawn_detached(async move {
            let own = Some(context.process);
            // A later look may succeed.
            if let Ok(lock) = viewed(&context, &name).await
                && lock.waiters().iter().any(|waiter| waiter.process() != own)
            {
                let token = Some(token);
                on_recalled(&context, &queues, &Recall { name, token });
            }
        });
    }
}
