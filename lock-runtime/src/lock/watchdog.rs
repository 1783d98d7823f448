//! The watchdog: renews every lease in time, and ends leases that are no longer proven.
//!
//! It is one task on the I/O thread for all locks of a manager. A schedule contains the instant at which each
//! hold is due next; one wake-up serves all holds that are due, and their renewals are sent in batches. A
//! hold stays in the schedule while a renewal is in flight, so its lease expires on time.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::request::Claim;
use crate::engine::traits::{Engine, Shard};
#[cfg(feature = "testing")]
use crate::error::LostCause;
use crate::lock::context::Context;
use crate::lock::renewal_timing;
use crate::util::clock::{Timestamp, nanos};
use crate::util::io_thread::kept;
use crate::util::panics::caught;
use crate::util::sync::{AtomicBool, Mutex, MutexGuard};
use crate::util::time::{deadline_in, now, timeout_at};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The largest number of locks in one renewal request: enough to be cheap, few enough for the server to
/// serve other requests in between.
const MAX_BATCH: usize = 200;

/// The greatest number of holds that are served at once, with one reading of the clocks. Few enough for the memory
/// of all of them to be near, and for other tasks to run in between.
const MAX_AT_ONCE: usize = 10 * MAX_BATCH;

/// The greatest number of vectors that are kept for later holds: most locks are released long before their renewal.
const MAX_SPARE: usize = 256;

/// A held lock, as the watchdog sees it.
pub(crate) trait Renewable: Send + Sync {
    fn name(&self) -> &str;

    /// Returns where the schedule records the place of the hold among those that are due at the same instant.
    fn place(&self) -> &AtomicUsize;

    /// Called at the instant for which the hold is scheduled. `now` is the same point in time. Returns the renewal
    /// that is to be sent, if one is due.
    fn on_due(self: Arc<Self>, instant: Instant, now: Timestamp) -> Option<Renewal>;

    /// Called when the server has answered a renewal sent at `sent`; `now` is when the answer came. `is_owner`: `true`
    /// if the claim still owned the lock.
    fn on_renewed(self: Arc<Self>, sent: Timestamp, now: Timestamp, is_owner: bool);

    /// Called when a renewal has failed.
    fn on_renewal_failed(self: Arc<Self>, error: &EngineError);

    /// Loses the lock, as a test demands. Returns the claim with which it was held.
    #[cfg(feature = "testing")]
    fn lose(&self, cause: LostCause) -> Claim;
}

/// A renewal that is about to be sent.
pub(crate) struct Renewal {
    pub(crate) claim: Claim,
    pub(crate) timeout: Duration,
    pub(crate) hold: Arc<dyn Renewable>,
}

pub(crate) struct Watchdog {
    origin: Instant,
    schedule: Mutex<Schedule>,
    wake: Notify,
    /// All holds are to be canceled.
    cancels: AtomicBool,
    canceled: Notify,
}

#[derive(Default)]
struct Schedule {
    /// The holds that are due at the same instant, each at its [place](Renewable::place).
    holds: BTreeMap<Instant, Vec<Arc<dyn Renewable>>>,
    /// Vectors of holds that were released, for those that come next.
    spare: Vec<Vec<Arc<dyn Renewable>>>,
    /// The instant at which the task wakes next.
    next_wakeup: Option<Instant>,
    closed: bool,
    /// When the last lease of those lost ends.
    last_lease_end: Option<Instant>,
    /// All holds that existed when this was requested are canceled.
    canceled: bool,
}

impl Schedule {
    fn insert(&mut self, due: Instant, hold: Arc<dyn Renewable>) {
        let spare = || self.spare.pop().unwrap_or_else(|| Vec::with_capacity(1));
        let holds = self.holds.entry(due).or_insert_with(spare);
        hold.place().store(holds.len(), Ordering::Relaxed);
        holds.push(hold);
    }

    fn remove(&mut self, due: Instant, hold: &dyn Renewable) -> Option<Arc<dyn Renewable>> {
        let Entry::Occupied(mut entry) = self.holds.entry(due) else {
            return None;
        };
        let (holds, place) = (entry.get_mut(), hold.place().load(Ordering::Relaxed));
        // Those that were due may have been taken, and others may be due at the same instant.
        let is_there = |it: &&Arc<dyn Renewable>| std::ptr::addr_eq(Arc::as_ptr(it), hold);
        holds.get(place).filter(is_there)?;
        let removed = holds.swap_remove(place);
        match holds.get(place) {
            Some(moved) => moved.place().store(place, Ordering::Relaxed),
            None if holds.is_empty() => {
                let holds = entry.remove();
                // A large one would keep its memory.
                if holds.capacity() <= 4 && self.spare.len() < MAX_SPARE {
                    self.spare.push(holds);
                }
            }
            None => {}
        }
        Some(removed)
    }
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
        let delay = renewal_timing::delay(remaining);
        self.align_to_grid(instant + delay, delay)
    }

    /// Rounds `due`, the end of `delay`, up to a grid by at most a thirty-second of `delay`, so that renewals due
    /// at nearly the same time form one batch. The width of a grid is a power of two, so that holds with
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

    /// Returns the next wake-up. One that was set stays although its hold has been released, as most are: later holds
    /// are due later, and need not wake the task.
    fn next_wakeup(&self) -> Instant {
        let mut schedule = self.locked();
        let set = schedule.next_wakeup.filter(|wakeup| *wakeup > now());
        schedule.next_wakeup = set.or_else(|| schedule.holds.keys().next().copied());
        let next = schedule.next_wakeup;
        next.unwrap_or_else(|| deadline_in(Duration::MAX))
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

/// Groups the renewals that may share a request: those on the same server with timeouts of the same
/// magnitude, sorted by slot. Those with and without replicas are separate, so that waiting for replicas
/// delays only the former.
fn batches(mut renewals: Vec<Renewal>, engine: &dyn Engine) -> Vec<Vec<Renewal>> {
    let group = |renewal: &Renewal| {
        let Shard { server, slot } = engine.shard_of(&renewal.claim.name);
        let octave = renewal.timeout.as_millis().max(1).ilog2();
        let replicated = renewal.claim.replicas > 0;
        ((server, replicated, octave), slot)
    };
    renewals.sort_by_cached_key(group);
    let mut batches = Vec::new();
    while let Some(last) = renewals.last() {
        let (last, _) = group(last);
        let batch = renewals.iter().rev().take(MAX_BATCH);
        let batch = batch.take_while(|renewal| group(renewal).0 == last);
        batches.push(renewals.split_off(renewals.len() - batch.count()));
    }
    batches
}

async fn renew_batch(batch: Vec<Renewal>, context: Arc<Context>) {
    let timeout = batch.iter().map(|renewal| renewal.timeout).min();
    let each = batch.into_iter();
    let (claims, holds): (Vec<Claim>, Vec<_>) = each.map(|it| (it.claim, it.hold)).unzip();
    let sent = context.clock.now();
    let deadline = now() + timeout.unwrap_or_default();
    let answers = caught(context.engine.renew(&claims, deadline)).await;
    let answers = answers.unwrap_or_else(|_| {
        let words = "the renewal panicked";
        Err(EngineError::new(EngineErrorKind::Indeterminate, words))
    });
    if let Some(claim) = claims.first() {
        let server = || context.server_of(&claim.name);
        context.failures.renewals(server, holds.len(), &answers);
    }
    fetch(&holds);
    let now = context.clock.now();
    match answers {
        Ok(answers) => {
            for (hold, answer) in holds.into_iter().zip(answers) {
                match answer {
                    Ok(is_owner) => hold.on_renewed(sent, now, is_owner),
                    Err(error) => hold.on_renewal_failed(&error),
                }
            }
        }
        Err(error) => {
            for hold in holds {
                hold.on_renewal_failed(&error);
            }
        }
    }
}

/// Reads the holds and their names. The processor fetches them from memory side by side; later, while it locks one after
/// the other, it waits for each.
fn fetch(holds: &[Arc<dyn Renewable>]) {
    for hold in holds {
        let name = hold.name().as_bytes().first();
        std::hint::black_box((hold.place().load(Ordering::Relaxed), name.copied()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::manager::LockManager;
    use std::future::Future;
    use std::pin::pin;
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

        fn on_renewed(self: Arc<Self>, _: Timestamp, _: Timestamp, _: bool) {}

        fn on_renewal_failed(self: Arc<Self>, _: &EngineError) {}

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

    #[tokio::test]
    async fn short_leases_are_renewed_in_batches_of_their_own() {
        let locks = LockManager::connect("memory://").await.unwrap();
        let guard = locks.lock("row").acquire().await.unwrap();
        let renewal = |n| Renewal {
            claim: guard.hold().claim(),
            timeout: Duration::from_millis(if n < 450 { 1_000 } else { 100 }),
            hold: guard.hold().clone(),
        };
        let renewals = (0..455).rev().map(renewal).collect();
        let batches = batches(renewals, &*locks.inner.context.engine);
        let is_short = |renewal: &Renewal| renewal.timeout < Duration::from_secs(1);
        let (short, long): (Vec<_>, Vec<_>) =
            batches.iter().partition(|batch| batch.iter().any(is_short));
        let sizes =
            |batches: Vec<&Vec<_>>| -> Vec<_> { batches.into_iter().map(Vec::len).collect() };
        assert_eq!(sizes(short).into_iter().sum::<usize>(), 5);
        assert_eq!(sizes(long), [200, 200, 50]);
    }
}
