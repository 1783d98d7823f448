//! Whether messages arrive, and when a claim last asked for that.

use crate::util::sync::Mutex;
use crate::util::time::{elapsed_since, now};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// No claim waits, and the listener is not kept.
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
    is_kept: AtomicBool,
}

impl SharedStatus {
    pub(crate) fn new() -> SharedStatus {
        SharedStatus {
            status: watch::Sender::new(Status::Idle),
            used: Mutex::new(now()),
            is_kept: AtomicBool::new(false),
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

    /// Records that messages are wanted whether claims wait or not. Returns `true` if that is new.
    pub(crate) fn keep(&self) -> bool {
        !self.is_kept.load(Ordering::Relaxed) && !self.is_kept.swap(true, Ordering::Relaxed)
    }

    /// Returns `true` if messages arrive.
    pub(crate) fn is_listening(&self) -> bool {
        matches!(*self.status.borrow(), Status::Listening(_))
    }

    /// Returns when a claim was last about to wait; `None` if that does not matter.
    pub(crate) fn used(&self) -> Option<Instant> {
        let is_kept = self.is_kept.load(Ordering::Relaxed);
        (!is_kept).then(|| *self.used.lock())
    }

    pub(crate) fn is_unused_for(&self, time: Duration) -> bool {
        self.used().is_some_and(|used| elapsed_since(used) > time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_listener_is_not_unused() {
        let status = SharedStatus::new();
        while !status.is_unused_for(Duration::ZERO) {}
        assert!(status.keep() && !status.keep());
        assert!(!status.is_unused_for(Duration::ZERO));
        assert_eq!(status.used(), None);
    }
}
