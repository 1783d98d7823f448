//! The watchdog: renews every lease in time, and ends those that can't be proven any more.
//!
//! It is one task on the I/O thread for all locks of a manager. An agenda says at which instant the
//! next hold needs something; one wake-up serves all that are due, and their renewals go out in
//! batches. A deadline stays on the agenda while a renewal is under way, so it fires by itself.

use crate::clock::Clock;
use crate::engine::{Claim, Engine};
use crate::hold::{Duty, Hold};
use crate::io::{Io, after, instant, kept, since, timeout_at};
use crate::sync::{Mutex, MutexGuard};
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

    /// The instant so long from now, put off to the next point of a grid.
    pub(crate) fn on_grid(&self, wait: Duration, grid: Duration) -> Instant {
        let grid = grid.as_nanos().max(1);
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
        // Those that wait for replicas keep nobody else waiting.
        let (some, none): (Vec<_>, Vec<_>) = renew
            .into_iter()
            .partition(|hold| hold.claim().replicas > 0);
        for renew in [none, some] {
            for renew in by_server(renew, &*engine) {
                io.run(renew_all(renew, engine.clone(), clock.clone()));
            }
        }
        let _ = timeout_at(next, watchdog.changed.notified()).await;
    }
}

/// For each server the holds whose locks it keeps, neighbours beside one another.
fn by_server(mut holds: Vec<Arc<Hold>>, engine: &dyn Engine) -> Vec<Vec<Arc<Hold>>> {
    let server = |hold: &Arc<Hold>| engine.kept_at(&hold.name).0;
    holds.sort_by_cached_key(|hold| engine.kept_at(&hold.name));
    let servers = holds.chunk_by(|one, next| server(one) == server(next));
    servers.map(<[_]>::to_vec).collect()
}

async fn renew_all(holds: Vec<Arc<Hold>>, engine: Arc<dyn Engine>, clock: Clock) {
    for holds in holds.chunks(BATCH) {
        let claims: Vec<Claim> = holds.iter().map(|hold| hold.claim()).collect();
        let patience = holds
            .iter()
            .zip(&claims)
            .map(|(hold, claim)| (claim.ttl / 10).min(hold.remaining()))
            .min();
        let sent = clock.now();
        let until = instant() + patience.unwrap_or_default();
        let answers = engine.renew(&claims, until).await;
        if let Some(hold) = holds.first() {
            let server = || hold.shared.server_of(&hold.name);
            hold.shared.failures.renewals(server, holds.len(), &answers);
        }
        match answers {
            Ok(answers) => {
                for ((hold, claim), answer) in holds.iter().zip(&claims).zip(answers) {
                    match answer {
                        Ok(ours) => hold.renewed(sent, claim.ttl, ours),
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
}

fn address(hold: &Hold) -> usize {
    std::ptr::from_ref(hold).addr()
}
