//! Background releases that were sent over a runtime's own connection.
//!
//! No caller needs their replies at once, so no task is woken for a reply: the I/O thread collects the
//! replies at intervals. It also retries a release that its runtime has not finished, because that
//! runtime is blocked or has been dropped.

use crate::engine::request::Claim;
use crate::lock::tasks::TrackedTask;
use crate::util::panics::catch;
use crate::util::sync::{Mutex, MutexGuard};
use crate::util::time::{elapsed_since, now};
use std::future::Future;
use std::pin::Pin;
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The shortest pause between two polls for replies when there is no capacity.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The largest number of pending releases; the driver of a connection accepts no more without waiting.
const MAX_PENDING: usize = if cfg!(test) { 2 } else { 32 };

#[derive(Default)]
pub(crate) struct PendingReleases {
    releases: Mutex<Vec<PendingRelease>>,
    /// The time of the last poll for replies; locked during a poll.
    last_polled: Mutex<Option<Instant>>,
    wake: Notify,
}

pub(crate) struct PendingRelease {
    pub(crate) claim: Claim,
    /// `true` if the lock was held until the release, as far as this process knows.
    pub(crate) was_held: bool,
    sent: Instant,
    /// Resolves to `true` if the release was confirmed.
    reply: Pin<Box<dyn Future<Output = bool> + Send>>,
    _task: TrackedTask,
}

impl PendingReleases {
    pub(crate) fn has_capacity(&self) -> bool {
        self.releases().len() < MAX_PENDING
    }

    /// Returns `true` if replies were polled for so recently that none can have arrived since.
    pub(crate) fn was_just_polled(&self) -> bool {
        let last_polled = *self.last_polled();
        last_polled.is_some_and(|at| elapsed_since(at) < MIN_POLL_INTERVAL)
    }

    pub(crate) fn push(&self, release: PendingRelease) {
        let mut releases = self.releases();
        if releases.is_empty() {
            self.wake.notify_one();
        }
        releases.push(release);
    }

    /// Wakes the task that collects replies.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Polls for replies. Removes and returns the releases that were not confirmed within `timeout`, and returns
    /// `true` if any release is still pending.
    pub(crate) fn poll_all(&self, timeout: Duration) -> (Vec<PendingRelease>, bool) {
        let mut last_polled = self.last_polled();
        *last_polled = Some(now());
        let (mut pending, mut confirmed, mut unconfirmed) = (Vec::new(), Vec::new(), Vec::new());
        for mut release in std::mem::take(&mut *self.releases()) {
            match release.poll_confirmed() {
                Poll::Pending if elapsed_since(release.sent) < timeout => pending.push(release),
                Poll::Ready(true) => confirmed.push(release),
                _ => unconfirmed.push(release),
            }
        }
        let mut releases = self.releases();
        releases.append(&mut pending);
        let any_pending = !releases.is_empty();
        drop((releases, last_polled));
        // Drop outside the mutexes: this may wake a shutdown.
        drop(confirmed);
        (unconfirmed, any_pending)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.releases().is_empty()
    }

    fn last_polled(&self) -> MutexGuard<'_, Option<Instant>> {
        self.last_polled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn releases(&self) -> MutexGuard<'_, Vec<PendingRelease>> {
        self.releases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingRelease {
    pub(crate) fn new(
        task: TrackedTask,
        claim: Claim,
        was_held: bool,
        reply: impl Future<Output = bool> + Send + 'static,
    ) -> PendingRelease {
        PendingRelease {
            claim,
            was_held,
            sent: now(),
            // Unconstrained: many replies are polled in one go, which would exhaust tokio's budget.
            reply: Box::pin(tokio::task::unconstrained(reply)),
            _task: task,
        }
    }

    pub(crate) fn poll_confirmed(&mut self) -> Poll<bool> {
        let mut context = Context::from_waker(Waker::noop());
        catch(|| self.reply.as_mut().poll(&mut context)).unwrap_or(Poll::Ready(false))
    }
}
