//! Whether messages arrive, and when a claim last asked for that.

use crate::util::sync::Mutex;
use crate::util::time::{elapsed_since, now};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// No claim waits.
    Idle,
    Starting,
    /// Messages arrive on that channel.
    Listening(Arc<str>),
    /// The last connection failed, or could not be made; others follow.
    Down,
}

/// The status, which claims read and the subscriber sets.
pub(crate) struct SharedStatus {
    pub(crate) status: watch::Sender<Status>,
    used: Mutex<Instant>,
}

impl SharedStatus {
    pub(crate) fn new() -> SharedStatus {
        SharedStatus {
            status: watch::Sender::new(Status::Idle),
            used: Mutex::new(now()),
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        *self.status.borrow() == Status::Idle
    }

    /// Returns the status before.
    pub(crate) fn set(&self, status: Status) -> Status {
        self.status.send_replace(status)
    }

    /// Records that a claim is about to wait.
    pub(crate) fn touch(&self) {
        *self.used.lock() = now();
    }

    pub(crate) fn used(&self) -> Instant {
        *self.used.lock()
    }

    pub(crate) fn is_unused_for(&self, time: Duration) -> bool {
        elapsed_since(self.used()) > time
    }
}
