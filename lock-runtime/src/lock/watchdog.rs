//! The watchdog: renews every lease in time, and ends those that can't be proven any more.
//!
//! It is one task on the I/O thread for all locks of a manager. An agenda says at which instant the
//! next hold needs something; one wake-up serves all that are due, and their renewals go out in
//! batches. A deadline stays on the agenda while a renewal is under way, so it fires by itself.

use crate::engine::error::{EngineError, Fault};
use crate::engine::request::Claim;
use crate::engine::traits::Engine;
use crate::lock::hold::{Duty, Hold};
use crate::util::clock::Clock;
use crate::util::io_thread::{Io, after, instant, kept, since, timeout_at};
use crate::util::panics::caught;
use crate::util::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How many locks one renewal request carries: enough to be cheap, few enough for the server to
/// serve others in between.
const BATCH: usize = 200;

pub(crate) struct Watchdog {
    start: Instant,
    agenda: Mutex<Agenda>,
    changed: Notify,
}

#[derive(Default)]
struct Agenda {
    /// By instant, then by the hold's address, which is its own as long as it stands here.
    due: BTreeMap<(Instant, usize), Arc<Hold>>,
    /// When the task wakes next.
    alarm: Option<Instant>,
    closed: bool,
}

impl Watchdog {
    pub(crate) fn start(io: Io, engine: Arc<dyn Engine>, clock: Clock) -> Arc<Watchdog> {
        let watchdog = Arc::new(Watchdog {
            start: instant(),
            agenda: Mutex::default(),
            changed: Notify::new(),
        });
        let kept_up = watchdog.clone();
        io.run(kept(move || {
            run(kept_up.clone(), io, engine.clone(), clock.clone())
        }));
        watchdog
    }

    /// Enters a hold under a new instant, instead of the one it stood under `before`.
    pub(crate) fn enter(&self, before: Option<Instant>, due: Instant, hold: &Arc<Hold>) {
        let mut agenda = self.agenda();
        if let Some(before) = before {
            agenda.due.remove(&(before, address(hold)));
        }
        agenda.due.insert((due, address(hold)), hold.clone());
        if agenda.alarm.is_none_or(|alarm| due < alarm) {
            agenda.alarm = Some(due);
            self.changed.notify_one();
        }
    }

    pub(crate) fn strike(&self, due: Instant, hold: &Hold) {
        let struck = self.agenda().due.remove(&(due, address(hold)));
        // Dropped only now: the last hold takes its manager, and so this agenda, with it.
        drop(struck);
    }

    /// The instant after that wait, put off by a thirty-second of it at most: to the next point of a
    /// grid, so that what is due at nearly the same time goes out as one batch. The width of a grid is a
    /// power of two, so that holds with different waits share points.
    pub(crate) fn on_grid(&self, wait: Duration) -> Instant {
        let wait = wait.max(Duration::from_nanos(32));
        let grid = 1 << (wait.as_nanos() / 32).ilog2();
        let past = (since(self.start) + wait).as_nanos();
        let point = u64::try_from(past.div_ceil(grid) * grid).unwrap_or(u64::MAX);
        self.start + Duration::from_nanos(point)
    }

    /// Ends the task.
    pub(crate) fn close(&self) {
        self.agenda().closed = true;
        self.changed.notify_one();
    }

    /// Takes all that are due, sees to them, and returns those to renew and when to come back.
    fn round(&self) -> Option<(Vec<Arc<Hold>>, Instant)> {
        let now = instant();
        let due = {
            let mut agenda = self.agenda();
            if agenda.closed {
                return None;
            }
            let later = agenda.due.split_off(&(now + Duration::from_nanos(1), 0));
            std::mem::replace(&mut agenda.due, later)
        };
        let renew = due
            .into_values()
            .filter(|hold| matches!(hold.duty(now), Duty::Renew))
            .collect();
        let mut agenda = self.agenda();
        let next = agenda.due.keys().next().map(|(due, _)| *due);
        agenda.alarm = next;
        Some((renew, next.unwrap_or_else(|| after(Duration::MAX))))
    }

    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.agenda().due.is_empty()
    }

    fn agenda(&self) -> MutexGuard<'_, Agenda> {
        self.agenda.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn run(watchdog: Arc<Watchdog>, io: Io, engine: Arc<dyn Engine>, clock: Clock) {
    while let Some((renew, next)) = watchdog.round() {
        for batch in batches(renew, &*engine) {
            io.run(renew_together(batch, engine.clone(), clock.clone()));
        }
        let _ = timeout_at(next, watchdog.changed.notified()).await;
    }
}

/// Groups the holds whose renewals may go out in one request: those at the same server that may wait for
/// about as long, neighbours beside one another. Those that wait for replicas keep no others waiting.
fn batches(holds: Vec<Arc<Hold>>, engine: &dyn Engine) -> Vec<Vec<Arc<Hold>>> {
    let group = |hold: &Arc<Hold>| {
        let (server, slot) = engine.kept_at(&hold.name);
        let octave = hold.patience().as_millis().max(1).ilog2();
        let replicated = hold.claim().replicas > 0;
        ((server, replicated, octave), slot)
    };
    let mut holds: Vec<_> = holds.into_iter().map(|hold| (group(&hold), hold)).collect();
    holds.sort_by_key(|(group, _)| *group);
    holds
        .chunk_by(|((one, _), _), ((next, _), _)| one == next)
        .flat_map(|group| group.chunks(BATCH))
        .map(|batch| batch.iter().map(|(_, hold)| hold.clone()).collect())
        .collect()
}

async fn renew_together(holds: Vec<Arc<Hold>>, engine: Arc<dyn Engine>, clock: Clock) {
    let patience = holds.iter().map(|hold| hold.patience()).min();
    let claims: Vec<Claim> = holds.iter().map(|hold| hold.renewal()).collect();
    let sent = clock.now();
    let until = instant() + patience.unwrap_or_default();
    let answers = caught(engine.renew(&claims, until)).await;
    let answers = answers.unwrap_or_else(|_| {
        let words = "the renewal panicked";
        Err(EngineError::new(Fault::Unanswered, words))
    });
    if let Some(hold) = holds.first() {
        let server = || hold.shared.server_of(&hold.name);
        hold.shared.failures.renewals(server, holds.len(), &answers);
    }
    match answers {
        Ok(answers) => {
            for (hold, answer) in holds.iter().zip(answers) {
                match answer {
                    Ok(ours) => hold.renewed(sent, ours),
                    Err(error) => hold.renewal_failed(&error),
                }
            }
        }
        Err(error) => {
            for hold in holds {
                hold.renewal_failed(&error);
            }
        }
    }
}

fn address(hold: &Hold) -> usize {
    std::ptr::from_ref(hold).addr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::manager::LockManager;

    #[tokio::test]
    async fn leases_with_little_left_are_renewed_apart_from_long_ones() {
        let locks = LockManager::connect("memory://").await.unwrap();
        let mut guards = Vec::new();
        for n in 0..455 {
            let ttl = Duration::from_millis(if n < 450 { 30_000 } else { 300 });
            let lock = locks.lock(format!("row:{n}")).ttl(ttl).renew(false);
            guards.push(lock.acquire().await.unwrap());
        }
        let holds = guards.iter().rev().map(|guard| guard.hold.clone());
        let batches = batches(holds.collect(), &*locks.shared.engine);
        let is_short = |hold: &Arc<Hold>| hold.claim().ttl < Duration::from_secs(1);
        let (short, long): (Vec<_>, Vec<_>) =
            batches.iter().partition(|batch| batch.iter().any(is_short));
        let sizes =
            |batches: Vec<&Vec<_>>| -> Vec<_> { batches.into_iter().map(Vec::len).collect() };
        assert_eq!(sizes(short).into_iter().sum::<usize>(), 5);
        assert_eq!(sizes(long), [200, 200, 50]);
    }
}
