//! The watchdog: renews every lease in time, and ends leases that are no longer proven.
//!
//! It is one task on the I/O thread for all locks of a manager. A schedule contains the instant at which each
//! hold is due next; one wake-up serves all holds that are due, and their renewals are sent in batches. A
//! lease's deadline stays in the schedule while a renewal is in flight, so the lease expires on time.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::request::Claim;
use crate::engine::traits::{Engine, Shard};
use crate::lock::context::Context;
use crate::util::clock::Timestamp;
use crate::util::io_thread::kept;
use crate::util::panics::caught;
use crate::util::sync::{Mutex, MutexGuard};
use crate::util::time::{deadline_in, elapsed_since, now, timeout_at};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The largest number of locks in one renewal request: enough to be cheap, few enough for the server to
/// serve other requests in between.
const MAX_BATCH: usize = 200;

/// A held lock, as the watchdog sees it.
pub(crate) trait Renewable: Send + Sync {
    fn name(&self) -> &str;

    /// Returns the number of replicas that must acknowledge a renewal.
    fn replicas(&self) -> u32;

    /// Returns the timeout of a renewal sent now.
    fn renewal_timeout(&self) -> Duration;

    /// Returns the claim of a renewal that is about to be sent.
    fn begin_renewal(&self) -> Claim;

    /// Called at the instant for which the hold is scheduled.
    fn on_due(self: Arc<Self>, now: Instant) -> DueAction;

    /// Called when the server has answered a renewal sent at `sent`. `is_owner`: `true` if the claim still owned
    /// the lock.
    fn on_renewed(self: Arc<Self>, sent: Timestamp, is_owner: bool);

    /// Called when a renewal has failed.
    fn on_renewal_failed(self: Arc<Self>, error: &EngineError);
}

/// The watchdog's next action for a hold that was due.
pub(crate) enum DueAction {
    Renew,
    Rescheduled,
    Done,
}

pub(crate) struct Watchdog {
    origin: Instant,
    schedule: Mutex<Schedule>,
    wake: Notify,
}

#[derive(Default)]
struct Schedule {
    /// Keyed by instant, then by the hold's address, which is unique while the hold is scheduled.
    entries: BTreeMap<(Instant, usize), Arc<dyn Renewable>>,
    /// The instant at which the task wakes next.
    next_wakeup: Option<Instant>,
    closed: bool,
}

impl Watchdog {
    pub(crate) fn start(context: Arc<Context>) -> Arc<Watchdog> {
        let watchdog = Arc::new(Watchdog {
            origin: now(),
            schedule: Mutex::default(),
            wake: Notify::new(),
        });
        let (io, kept_up) = (context.io, watchdog.clone());
        io.spawn_detached(kept(move || run(kept_up.clone(), context.clone())));
        watchdog
    }

    /// Schedules a hold for the instant `due`, instead of `before`.
    pub(crate) fn schedule(&self, before: Option<Instant>, due: Instant, hold: Arc<dyn Renewable>) {
        let key = entry_key(&*hold);
        let mut schedule = self.locked();
        if let Some(before) = before {
            schedule.entries.remove(&(before, key));
        }
        schedule.entries.insert((due, key), hold);
        if schedule.next_wakeup.is_none_or(|wakeup| due < wakeup) {
            schedule.next_wakeup = Some(due);
            self.wake.notify_one();
        }
    }

    pub(crate) fn unschedule(&self, due: Instant, hold: &dyn Renewable) {
        let removed = self.locked().entries.remove(&(due, entry_key(hold)));
        // Drop outside the mutex: the last hold owns the watchdog.
        drop(removed);
    }

    /// Returns the instant after `delay`, rounded up to a grid by at most a thirty-second of `delay`, so that
    /// renewals due at nearly the same time form one batch. The width of a grid is a power of two, so that holds
    /// with different delays share grid points.
    pub(crate) fn align_to_grid(&self, delay: Duration) -> Instant {
        let delay = delay.max(Duration::from_nanos(32));
        let grid = 1 << (delay.as_nanos() / 32).ilog2();
        let past = (elapsed_since(self.origin) + delay).as_nanos();
        let point = u64::try_from(past.div_ceil(grid) * grid).unwrap_or(u64::MAX);
        self.origin + Duration::from_nanos(point)
    }

    /// Ends the task.
    pub(crate) fn close(&self) {
        self.locked().closed = true;
        self.wake.notify_one();
    }

    /// Removes the holds that are due. Returns those to renew and the next wake-up, or `None` once closed.
    fn take_due(&self) -> Option<(Vec<Arc<dyn Renewable>>, Instant)> {
        let now = now();
        let due = {
            let mut schedule = self.locked();
            if schedule.closed {
                return None;
            }
            let later = schedule
                .entries
                .split_off(&(now + Duration::from_nanos(1), 0));
            std::mem::replace(&mut schedule.entries, later)
        };
        let renew = due
            .into_values()
            .filter(|hold| matches!(hold.clone().on_due(now), DueAction::Renew))
            .collect();
        let mut schedule = self.locked();
        let next = schedule.entries.keys().next().map(|(due, _)| *due);
        schedule.next_wakeup = next;
        Some((renew, next.unwrap_or_else(|| deadline_in(Duration::MAX))))
    }

    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.locked().entries.is_empty()
    }

    fn locked(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn run(watchdog: Arc<Watchdog>, context: Arc<Context>) {
    while let Some((renew, next)) = watchdog.take_due() {
        for batch in batches(renew, &*context.engine) {
            context
                .io
                .spawn_detached(renew_batch(batch, context.clone()));
        }
        let _ = timeout_at(next, watchdog.wake.notified()).await;
    }
}

/// Groups the holds whose renewals may share a request: those on the same server with timeouts of the same
/// magnitude, sorted by slot. Holds with and without replicas are separate, so that waiting for replicas
/// delays only the former.
fn batches(holds: Vec<Arc<dyn Renewable>>, engine: &dyn Engine) -> Vec<Vec<Arc<dyn Renewable>>> {
    let group = |hold: &Arc<dyn Renewable>| {
        let Shard { server, slot } = engine.shard_of(hold.name());
        let octave = hold.renewal_timeout().as_millis().max(1).ilog2();
        let replicated = hold.replicas() > 0;
        ((server, replicated, octave), slot)
    };
    let mut holds: Vec<_> = holds.into_iter().map(|hold| (group(&hold), hold)).collect();
    holds.sort_by_key(|(group, _)| *group);
    holds
        .chunk_by(|((one, _), _), ((next, _), _)| one == next)
        .flat_map(|group| group.chunks(MAX_BATCH))
        .map(|batch| batch.iter().map(|(_, hold)| hold.clone()).collect())
        .collect()
}

async fn renew_batch(holds: Vec<Arc<dyn Renewable>>, context: Arc<Context>) {
    let timeout = holds.iter().map(|hold| hold.renewal_timeout()).min();
    let claims: Vec<Claim> = holds.iter().map(|hold| hold.begin_renewal()).collect();
    let sent = context.clock.now();
    let deadline = now() + timeout.unwrap_or_default();
    let answers = caught(context.engine.renew(&claims, deadline)).await;
    let answers = answers.unwrap_or_else(|_| {
        let words = "the renewal panicked";
        Err(EngineError::new(EngineErrorKind::Indeterminate, words))
    });
    if let Some(hold) = holds.first() {
        let server = || context.server_of(hold.name());
        context.failures.renewals(server, holds.len(), &answers);
    }
    match answers {
        Ok(answers) => {
            for (hold, answer) in holds.into_iter().zip(answers) {
                match answer {
                    Ok(is_owner) => hold.on_renewed(sent, is_owner),
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

fn entry_key(hold: &dyn Renewable) -> usize {
    std::ptr::from_ref(hold).cast::<()>().addr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::manager::LockManager;

    #[tokio::test]
    async fn short_leases_are_renewed_in_batches_of_their_own() {
        let locks = LockManager::connect("memory://").await.unwrap();
        let mut guards = Vec::new();
        for n in 0..455 {
            let ttl = Duration::from_millis(if n < 450 { 30_000 } else { 300 });
            let lock = locks.lock(format!("row:{n}")).ttl(ttl).renew(false);
            guards.push(lock.acquire().await.unwrap());
        }
        let holds = guards
            .iter()
            .rev()
            .map(|guard| guard.hold().clone() as Arc<dyn Renewable>);
        let batches = batches(holds.collect(), &*locks.inner.context.engine);
        let is_short =
            |hold: &Arc<dyn Renewable>| hold.begin_renewal().ttl < Duration::from_secs(1);
        let (short, long): (Vec<_>, Vec<_>) =
            batches.iter().partition(|batch| batch.iter().any(is_short));
        let sizes =
            |batches: Vec<&Vec<_>>| -> Vec<_> { batches.into_iter().map(Vec::len).collect() };
        assert_eq!(sizes(short).into_iter().sum::<usize>(), 5);
        assert_eq!(sizes(long), [200, 200, 50]);
    }
}
