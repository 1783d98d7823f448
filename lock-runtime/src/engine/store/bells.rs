//! Bells: whoever gives a lock to a waiter rings for its process, if the store can; else that finds out when it
//! looks.

use crate::engine::event::EngineEvent;
use crate::engine::store::record::Record;
use crate::engine::store::run::Core;
use crate::util::sync::Mutex;
use crate::util::time::{elapsed_since, now};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How often a waiter looks that would hear a bell. A grant that it does not take lasts for longer.
const LOOK: Duration = Duration::from_millis(500);
/// For how long a bell may have covered another one, which was not heard.
const COVERED: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(crate) struct Hearing {
    has_begun: AtomicBool,
    last: Mutex<Option<Instant>>,
}

impl Core {
    /// Lets all claims of this process that wait look whenever the bell rings.
    pub(crate) fn hear(self: &Arc<Self>) {
        let Some(bells) = self.store.bells() else {
            return;
        };
        if !self.hearing.has_begun.swap(true, Ordering::Relaxed) {
            let core = Arc::downgrade(self);
            let bell = move || {
                if let Some(core) = core.upgrade() {
                    *core.hearing.last.lock() = Some(now());
                    let waiting: Vec<_> = core.waiting.lock().keys().copied().collect();
                    for token in waiting {
                        (core.handler)(EngineEvent::MayBeFree(token));
                    }
                }
            };
            bells.listen(&self.process.to_string(), Arc::new(bell));
        }
    }

    /// Rings for those that hold the lock since this step.
    pub(crate) fn ring(&self, before: &Record, after: &Record) {
        let Some(bells) = self.store.bells() else {
            return;
        };
        let is_new = |token| before.holder(token).is_none();
        let granted = after
            .holders
            .iter()
            .filter(|it| it.granted && is_new(it.token));
        for holder in granted {
            match holder.token.process() {
                own if own == self.process => (self.handler)(EngineEvent::MayBeFree(holder.token)),
                other => bells.ring(&other.to_string()),
            }
        }
    }

    /// Returns the pause before the next look of a waiter, which would be that long without bells.
    pub(crate) fn pause_with_bells(&self, pause: Duration) -> Duration {
        let hears = self.store.bells().is_some_and(|it| it.hears());
        let last = *self.hearing.last.lock();
        let is_covered = last.is_some_and(|last| elapsed_since(last) < COVERED);
        if hears && !is_covered {
            pause.max(LOOK)
        } else {
            pause
        }
    }
}
