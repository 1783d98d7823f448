//! When a process that listens looks whether anything was asked.

use crate::util::sync::Mutex;
use crate::util::time::{deadline_in, now};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How often a process looks, and for how long it does so more often once something was asked: answers
/// follow.
const LOOK: Duration = Duration::from_millis(500);
const SOON: Duration = Duration::from_millis(20);
const BUSY: Duration = Duration::from_secs(3);

/// How this process looks.
#[derive(Default)]
pub(crate) struct Listening {
    pub(crate) has_begun: AtomicBool,
    /// Until when answers may follow.
    busy_until: Mutex<Option<Instant>>,
    pub(crate) asked: Notify,
}

impl Listening {
    /// Records that answers may follow.
    pub(crate) fn hurry(&self) {
        *self.busy_until.lock() = Some(deadline_in(BUSY));
        self.asked.notify_one();
    }

    /// Returns when to look next.
    pub(crate) fn next(&self) -> Instant {
        let is_busy = self.busy_until.lock().is_some_and(|until| now() < until);
        deadline_in(if is_busy { SOON } else { LOOK })
    }
}
