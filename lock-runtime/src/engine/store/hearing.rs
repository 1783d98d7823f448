//! When this process looks that hears bells.

use crate::util::sync::Mutex;
use crate::util::time::{elapsed_since, now};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How often a waiter looks that would hear a bell. A grant that it does not take lasts for longer.
const LOOK: Duration = Duration::from_millis(500);
/// For how long a bell may have covered another one, which was not heard.
pub(crate) const COVERED: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(crate) struct Hearing {
    has_begun: AtomicBool,
    last: Mutex<Option<Instant>>,
}

impl Hearing {
    /// Returns `true` the first time.
    pub(crate) fn begins(&self) -> bool {
        !self.has_begun.swap(true, Ordering::Relaxed)
    }

    /// Records a bell.
    pub(crate) fn heard(&self) {
        *self.last.lock() = Some(now());
    }

    /// Returns the pause before the next look of a waiter, which would be that long without bells.
    pub(crate) fn pause(&self, pause: Duration) -> Duration {
        let last = *self.last.lock();
        match last.is_some_and(|last| elapsed_since(last) < COVERED) {
            true => pause,
            false => pause.max(LOOK),
        }
    }
}
