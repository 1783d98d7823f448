//! The keys that a call for several has acquired so far. They pass on if the call is polled no more, like a
//! lock that a waiter is offered.

use crate::engine::timeouts::GRANT_TTL;
use crate::lock::handoff::HoldGuard;
use crate::lock::offer::Offered;
use crate::util::io_thread::IoThread;
use crate::util::sync::{Mutex, MutexGuard};
use crate::util::time::{deadline_in, now};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often a call that waits for its next key shows that it is polled.
const BEAT: Duration = Duration::from_millis(400);

/// The guards of a call for several keys. Dropping it drops them.
pub(crate) struct Gathering {
    gathered: Arc<Gathered>,
    deadline: Instant,
}

struct Gathered(Mutex<Stage>);

struct Stage {
    /// `None` once they have been withdrawn or returned.
    guards: Option<Vec<HoldGuard>>,
    /// When they are withdrawn, unless the call is polled before.
    until: Instant,
}

impl Gathering {
    /// Begins a call that ends at `deadline`.
    pub(crate) fn begin(deadline: Instant) -> Gathering {
        let stage = Stage {
            guards: Some(Vec::new()),
            until: deadline,
        };
        Gathering {
            gathered: Arc::new(Gathered(Mutex::new(stage))),
            deadline,
        }
    }

    /// Returns the number of guards, or `None` if they have been withdrawn.
    pub(crate) fn count(&self) -> Option<usize> {
        self.gathered.stage().guards.as_ref().map(Vec::len)
    }

    /// Adds guards; drops them if the others have been withdrawn.
    pub(crate) fn add(&self, added: impl IntoIterator<Item = HoldGuard>) {
        let mut stage = self.gathered.stage();
        let until = stage.until;
        let Some(guards) = &mut stage.guards else {
            return drop(stage);
        };
        let before = guards.len();
        guards.extend(added);
        let added = guards[before..].iter().map(|guard| guard.hold().clone());
        let added: Vec<_> = added.collect();
        drop(stage);
        // Whichever of them has to be given up, all are.
        for hold in added {
            hold.withdraw_at(until, self.gathered.clone());
        }
    }

    /// Polls `work` at intervals even if it waits, and keeps the guards as long as this is polled. Returns
    /// its output, or `None` once the guards have been withdrawn.
    pub(crate) async fn keep_while<F: Future>(&self, io: IoThread, work: F) -> Option<F::Output> {
        let mut work = pin!(work);
        while self.beat() {
            if let Ok(output) = io.timeout_at(deadline_in(BEAT), work.as_mut()).await {
                return Some(output);
            }
        }
        None
    }

    /// Returns the guards, or `None` if they have been withdrawn.
    pub(crate) fn take(&self) -> Option<Vec<HoldGuard>> {
        self.gathered.stage().guards.take()
    }

    /// Records that the call is polled. Returns `false` if the guards have been withdrawn.
    fn beat(&self) -> bool {
        let mut stage = self.gathered.stage();
        stage.until = self.deadline.min(now() + GRANT_TTL);
        stage.guards.is_some()
    }
}

impl Gathered {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.lock()
    }
}

impl Offered for Gathered {
    fn expire(&self, now: Instant) -> Option<Instant> {
        let mut stage = self.stage();
        let until = stage.until;
        if stage.guards.is_some() && now < until {
            return Some(until);
        }
        let guards = stage.guards.take();
        // Dropped outside the mutex: they hand their locks on.
        drop(stage);
        drop(guards);
        None
    }

    fn withdraw(&self) {
        let guards = self.stage().guards.take();
        drop(guards);
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        self.gathered.withdraw();
    }
}
