//! The watchdog: renews every lease in time, and ends leases that are no longer proven.
//!
//! It is one task on the I/O thread for all locks of a manager. A schedule contains the instant at which each
//! hold is due next; one wake-up serves all holds that are due, and their renewals are sent in batches. A
//! hold stays in the schedule while a renewal is in flight, so its lease expires on time.

mod batches;
pub(crate) mod renewable;
mod schedule;
pub(crate) mod timing;

use crate::lock::context::Context;
use crate::lock::watchdog::batches::{MAX_BATCH, batches, fetch, renew_batch};
use crate::lock::watchdog::renewable::Renewable;
use crate::lock::watchdog::schedule::Schedule;
use crate::util::clock::nanos;
use crate::util::io_thread::kept;
use crate::util::sync::{AtomicBool, Mutex, MutexGuard};
use crate::util::time::{deadline_in, now, timeout_at};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The greatest number of holds that are served at once, with one reading of the clocks. Few enough for the
/// memory of all of them to be near, and for other tasks to run in between.
const MAX_AT_ONCE: usize = 10 * MAX_BATCH;

pub(crate) struct Watchdog {
    origin: Instant,
    schedule: Mutex<Schedule>,
    wake: Notify,
    /// All holds are to be canceled.
    cancels: AtomicBool,
    canceled: Notify,
}

impl Watchdog {
    fn new() -> Watchdog {
        Watchdog {
            origin: now(),
            schedule: Mutex::default(),
            wake: Notify::new(),
            cancels: AtomicBool::new(false),
            canceled: Notify::new(),
        }
    }

    pub(crate) fn start(context: Arc<Context>) -> Arc<Watchdog> {
        let watchdog = Arc::new(Watchdog::new());
        let (io, kept_up) = (context.io, watchdog.clone());
        io.spawn_detached(kept(move || run(kept_up.clone(), context.clone())));
        watchdog
    }

    /// Schedules a hold for the instant `due`, instead of `before`.
    pub(crate) fn schedule(&self, before: Option<Instant>, due: Instant, hold: Arc<dyn Renewable>) {
        let mut schedule = self.locked();
        if let Some(before) = before {
            schedule.remove(before, &*hold);
        }
        schedule.insert(due, hold);
        if schedule.next_wakeup.is_none_or(|wakeup| due < wakeup) || self.cancels() {
            schedule.next_wakeup = Some(due);
            self.wake.notify_one();
        }
    }

    pub(crate) fn unschedule(&self, due: Instant, hold: &dyn Renewable) {
        let removed = self.locked().remove(due, hold);
        // Drop outside the mutex: the last hold owns the watchdog.
        drop(removed);
    }

    /// Returns when a lease that remains for that long from `instant` on is renewed.
    pub(crate) fn next_renewal(&self, instant: Instant, remaining: Duration) -> Instant {
        let delay = timing::delay(remaining);
        self.align_to_grid(instant + delay, delay)
    }

    /// Rounds `due`, the end of `delay`, up to a grid by at most a thirty-second of `delay`, so that renewals
    /// due at nearly the same time form one batch. The width of a grid is a power of two, so that holds with
    /// different delays share grid points.
    pub(crate) fn align_to_grid(&self, due: Instant, delay: Duration) -> Instant {
        let nanos = |time| nanos(time).min(u64::MAX / 4);
        let below_grid = (1 << (nanos(delay).max(32) / 32).ilog2()) - 1;
        let due = due.saturating_duration_since(self.origin);
        let point = (nanos(due) + below_grid) & !below_grid;
        self.origin + Duration::from_nanos(point)
    }

    /// Cancels all holds, as if they were lost.
    pub(crate) async fn cancel(&self) {
        self.cancels.store(true, Ordering::SeqCst);
        self.wake.notify_one();
        loop {
            let canceled = self.canceled.notified();
            if self.locked().canceled {
                return;
            }
            canceled.await;
        }
    }

    /// Returns `true` if all holds are to be canceled.
    pub(crate) fn cancels(&self) -> bool {
        self.cancels.load(Ordering::SeqCst)
    }

    /// Returns when the server will have ended the leases of all holds that were lost, or `None` if it has.
    pub(crate) fn last_lease_end(&self) -> Option<Instant> {
        self.locked().last_lease_end.filter(|end| now() < *end)
    }

    /// Records until when the server may keep the lock of a hold that was lost.
    pub(crate) fn lost_until(&self, lease_end: Instant) {
        let mut schedule = self.locked();
        schedule.last_lease_end = schedule.last_lease_end.max(Some(lease_end));
    }

    /// Records that all holds are canceled.
    fn end_cancel(&self) {
        self.locked().canceled = true;
        self.canceled.notify_waiters();
    }

    /// Ends the task.
    pub(crate) fn close(&self) {
        self.locked().closed = true;
        self.wake.notify_one();
    }

    /// Removes the holds that are due, or all that are to be canceled. Returns them, or `None` once closed.
    fn take_due(&self, cancels: bool) -> Option<Vec<Arc<dyn Renewable>>> {
        let mut schedule = self.locked();
        if schedule.closed {
            return None;
        }
        let later = match cancels {
            true => BTreeMap::new(),
            false => schedule.holds.split_off(&(now() + Duration::from_nanos(1))),
        };
        let due = std::mem::replace(&mut schedule.holds, later);
        Some(due.into_values().flatten().collect())
    }

    /// Returns the next wake-up. One that was set stays although its hold has been released, as most are:
    /// later holds are due later, and need not wake the task.
    fn next_wakeup(&self) -> Instant {
        let mut schedule = self.locked();
        let set = schedule.next_wakeup.filter(|wakeup| *wakeup > now());
        schedule.next_wakeup = set.or_else(|| schedule.holds.keys().next().copied());
        let next = schedule.next_wakeup;
        next.unwrap_or_else(|| deadline_in(Duration::MAX))
    }

    /// Returns holds that are due after that instant, about as many as are served at once, and the last
    /// instant for which one of them is scheduled; `None` if there are no others. A hold that is rescheduled
    /// meanwhile may be returned again later, and one that is served just then is not.
    pub(crate) fn portion(
        &self,
        after: Option<Instant>,
    ) -> Option<(Instant, Vec<Arc<dyn Renewable>>)> {
        let schedule = self.locked();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (mut last, mut portion) = (None, Vec::new());
        for (due, holds) in schedule.holds.range((from, Bound::Unbounded)) {
            last = Some(*due);
            portion.extend(holds.iter().cloned());
            if portion.len() >= MAX_AT_ONCE {
                break;
            }
        }
        Some((last?, portion))
    }

    /// Returns all holds.
    #[cfg(feature = "testing")]
    pub(crate) fn holds(&self) -> Vec<Arc<dyn Renewable>> {
        self.locked().holds.values().flatten().cloned().collect()
    }

    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.locked().holds.is_empty()
    }

    fn locked(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock()
    }
}

async fn run(watchdog: Arc<Watchdog>, context: Arc<Context>) {
    loop {
        let cancels = watchdog.cancels();
        let Some(mut due) = watchdog.take_due(cancels) else {
            return;
        };
        while !due.is_empty() {
            let some = due.split_off(due.len().saturating_sub(MAX_AT_ONCE));
            let (instant, now) = (now(), context.clock.now());
            fetch(&some);
            let renewals = some.into_iter();
            let renewals = renewals.filter_map(|hold| hold.on_due(instant, now));
            for batch in batches(renewals.collect(), &*context.engine) {
                // A lock that is held for so long may be wanted back.
                context.engine.listen();
                context
                    .io
                    .spawn_detached(renew_batch(batch, context.clone()));
            }
            if !due.is_empty() {
                tokio::task::yield_now().await;
            }
        }
        if cancels {
            watchdog.end_cancel();
        }
        let _ = timeout_at(watchdog.next_wakeup(), watchdog.wake.notified()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::error::EngineError;
    #[cfg(feature = "testing")]
    use crate::engine::request::Claim;
    #[cfg(feature = "testing")]
    use crate::error::LostCause;
    use crate::lock::watchdog::renewable::{Renewal, Since};
    use crate::process_info::ReportedHold;
    use crate::site::Site;
    use crate::util::clock::Timestamp;
    use std::future::Future;
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;
    use std::task::{self, Waker};

    struct Scheduled(AtomicUsize);

    impl Renewable for Scheduled {
        fn name(&self) -> &str {
            "row"
        }

        fn place(&self) -> &AtomicUsize {
            &self.0
        }

        fn on_due(self: Arc<Self>, _: Instant, _: Timestamp) -> Option<Renewal> {
            None
        }

        fn on_renewed(self: Arc<Self>, _: Timestamp, _: Timestamp, _: bool) -> Option<f64> {
            None
        }

        fn on_renewal_failed(self: Arc<Self>, _: &EngineError) {}

        fn since(&self) -> Option<Since> {
            unreachable!()
        }

        fn guard(&self) -> Option<(Instant, Option<&'static Site>)> {
            unreachable!()
        }

        fn describe(&self) -> ReportedHold {
            unreachable!()
        }

        fn renew_now(self: Arc<Self>) {}

        #[cfg(feature = "testing")]
        fn lose(&self, _: LostCause) -> Claim {
            unreachable!()
        }
    }

    #[test]
    fn locks_that_are_released_soon_wake_the_task_once() {
        let watchdog = Watchdog::new();
        let wakes = || {
            let mut context = task::Context::from_waker(Waker::noop());
            pin!(watchdog.wake.notified()).poll(&mut context).is_ready()
        };
        let begin = deadline_in(Duration::from_secs(10));
        for n in 0..3 {
            let due = begin + Duration::from_secs(n);
            let hold = Arc::new(Scheduled(AtomicUsize::new(0)));
            watchdog.schedule(None, due, hold.clone());
            assert_eq!(wakes(), n == 0);
            watchdog.unschedule(due, &*hold);
            assert!(watchdog.take_due(false).is_some_and(|due| due.is_empty()));
            assert_eq!(watchdog.next_wakeup(), begin);
        }
        let soon = begin - Duration::from_secs(5);
        watchdog.schedule(None, soon, Arc::new(Scheduled(AtomicUsize::new(0))));
        assert!(wakes());
    }
}
