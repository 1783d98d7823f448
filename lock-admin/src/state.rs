//! What the page shows: everything redacted, in its order.

use crate::claim::Claim;
use crate::history::{History, Lane};
use crate::lock::Lock;
use crate::look::{Check, Look, MOST};
use crate::markup::Clock;
use crate::options::Options;
use crate::problem::{Evidence, Problem, problems};
use crate::process::Process;
use crate::recorder::{Event, LOST};
use crate::template::{Template, templates};
use crate::text::visible;
use lock_runtime::{LockInfo, ProcessInfo, Warning};
use std::collections::HashMap;
use std::time::{Duration, SystemTime};

/// How many events are shown.
pub(crate) const EVENTS: usize = 20;

/// Everything that is known at one moment.
pub(crate) struct State {
    pub(crate) at: SystemTime,
    pub(crate) server: String,
    pub(crate) ping: Result<Duration, String>,
    /// `None` as long as none was looked for.
    pub(crate) warnings: Option<Vec<Warning>>,
    /// Those that are held longest first.
    pub(crate) locks: Vec<Lock>,
    /// When they were seen: now, or before the server stopped replying.
    pub(crate) locks_seen: Option<SystemTime>,
    pub(crate) is_cut: bool,
    pub(crate) templates: Vec<Template>,
    /// The durations of templates are of the service's own calls.
    pub(crate) is_recorded: bool,
    pub(crate) processes: Vec<Process>,
    /// When they were seen, likewise.
    pub(crate) processes_seen: Option<SystemTime>,
    pub(crate) lanes: Vec<Lane>,
    /// How many there would be if there were room.
    pub(crate) all_lanes: usize,
    pub(crate) events: Vec<Event>,
    pub(crate) problems: Vec<Problem>,
    lost_by_gone: u64,
}

impl State {
    /// Puts together what was seen, and what came before it. What the server does not say is as it was seen
    /// `before`.
    pub(crate) fn of(
        look: Look,
        check: &Check,
        options: &Options,
        history: &mut History,
        before: Option<&State>,
    ) -> State {
        let Look {
            at,
            ping,
            locks,
            processes,
            stats,
        } = look;
        let mut missing = Vec::new();
        let mut add_missing =
            |reason: String, what: &str| missing.push(format!("{what}: {reason}"));
        let locks = locks.map_err(|reason| add_missing(reason, "The locks can't be listed"));
        let processes =
            processes.map_err(|reason| add_missing(reason, "The processes can't be listed"));
        let lock = |info: &LockInfo| Lock::of(info, at, options);
        let mut locks = locks.map(|all| all.iter().map(lock).collect::<Vec<_>>());
        let own = options.manager.process_id().to_string();
        let process = |info: &ProcessInfo| Process::of(info, at, &own);
        let processes = processes.map(|all| all.iter().map(process).collect::<Vec<_>>());
        let recorder = options.recorder.as_ref();
        let recorded = recorder.map(|recorder| recorder.recorded());
        let found = locks.as_deref_mut().ok();
        let reported = processes.as_deref().ok();
        history.add(at, found, reported, &ping, recorded.is_some());
        let earlier = before.map(|it| (&*it.locks, it.locks_seen));
        let (mut locks, locks_seen) = latest(locks, at, earlier);
        let earlier = before.map(|it| (&*it.processes, it.processes_seen));
        let (processes, processes_seen) = latest(processes, at, earlier);
        locks.sort_by(|a, b| {
            let order = |lock: &Lock| {
                let since = lock.since().unwrap_or(at);
                (lock.is_idle(), since, lock.key.clone())
            };
            order(a).cmp(&order(b))
        });
        let mut events = history.events();
        let this = processes.iter().find(|process| process.is_this);
        let this = this.map_or("this process".to_owned(), |process| process.who.full());
        let of_recorder = recorded.iter().flat_map(|it| it.events.iter().cloned());
        events.extend(of_recorder.map(|event| Event {
            key: event.key.map(|key| options.shown(&key)),
            details: match event.what {
                LOST => format!("by {this}, {}", visible(&event.details)),
                _ => visible(&event.details),
            },
            ..event
        }));
        events.sort_by_key(|event| std::cmp::Reverse(event.at));
        let (lanes, all_lanes) = history.lanes(at);
        let server = visible(options.manager.server());
        let problems = problems(&Evidence {
            at,
            server: &server,
            ping: &ping,
            servers_down: stats.servers_down,
            warnings: check.warnings.as_deref().unwrap_or_default(),
            missing: &missing,
            // Who waits for long is not known of what was seen before.
            locks: if locks_seen == Some(at) { &locks } else { &[] },
            events: &events,
        });
        events.truncate(EVENTS);
        State {
            at,
            server,
            ping,
            warnings: check.warnings.clone(),
            templates: templates(
                &locks,
                recorded.as_ref(),
                history,
                at,
                locks_seen.unwrap_or(at),
            ),
            is_recorded: recorded.is_some(),
            is_cut: locks.len() >= MOST,
            locks,
            locks_seen,
            processes,
            processes_seen,
            lanes,
            all_lanes,
            events,
            problems,
            lost_by_gone: history.lost_by_gone(),
        }
    }

    /// Returns `true` if the locks are as they are now.
    pub(crate) fn knows_locks(&self) -> bool {
        self.locks_seen == Some(self.at)
    }

    /// Returns `true` if the processes are as they are now.
    pub(crate) fn knows_processes(&self) -> bool {
        self.processes_seen == Some(self.at)
    }

    /// Returns the clock of the ages of locks, which stops where the locks are not known any more.
    pub(crate) fn clock_of_locks(&self, clock: Clock) -> Clock {
        stopped_at(self.locks_seen.filter(|_| !self.knows_locks()), clock)
    }

    /// Returns the clock of the ages of processes, likewise.
    pub(crate) fn clock_of_processes(&self, clock: Clock) -> Clock {
        stopped_at(
            self.processes_seen.filter(|_| !self.knows_processes()),
            clock,
        )
    }

    /// Returns how many holds of calls are listed.
    pub(crate) fn listed(&self) -> u64 {
        self.locks.iter().flat_map(Lock::in_calls).count() as u64
    }

    /// Returns `true` if there may be locks that are not listed.
    pub(crate) fn lacks_locks(&self) -> bool {
        self.is_cut || self.held() > self.listed()
    }

    /// Returns how many holds calls have: of processes whose list is not complete, as many as they report.
    pub(crate) fn held(&self) -> u64 {
        let holders = self.locks.iter().flat_map(Lock::in_calls);
        self.total(holders.map(|it| (it, 1)), |process, listed| {
            // One that holds none of those that it has named has ended, or released them.
            let is_cut = self.is_cut || (!process.is_complete && listed > 0);
            process
                .held
                .filter(|_| is_cut && process.silent_since.is_none())
        })
    }

    /// Returns how many locks are kept for the next calls of their processes.
    pub(crate) fn kept(&self) -> u64 {
        let holders = self.locks.iter().flat_map(|lock| &lock.holders);
        holders.filter(|it| it.is_kept).count() as u64
    }

    /// Returns how many calls wait, also within their process, which it alone knows, and in lines of other
    /// clients.
    pub(crate) fn waiting(&self) -> u64 {
        let waiters = self.locks.iter().flat_map(|lock| &lock.waiters);
        let calls = self.total(waiters.map(|it| (it, it.callers)), |process, _| {
            process.waiting.filter(|_| process.is_fresh)
        });
        calls.max(sum(self.locks.iter().map(|lock| lock.waiting)))
    }

    /// Returns the sum of what is listed of each process, or of what it has reported, if that is more.
    fn total<'a>(
        &'a self,
        listed: impl Iterator<Item = (&'a Claim, u64)>,
        reported: impl Fn(&Process, u64) -> Option<u64>,
    ) -> u64 {
        let mut numbers: HashMap<Option<&str>, u64> = HashMap::new();
        for (claim, number) in listed {
            let of = numbers.entry(claim.who.id.as_deref()).or_default();
            *of = of.saturating_add(number);
        }
        for process in &self.processes {
            let of = numbers.entry(process.who.id.as_deref()).or_default();
            *of = (*of).max(reported(process, *of).unwrap_or(0));
        }
        sum(numbers.into_values())
    }

    /// Returns how many locks the processes have lost, and those that are gone had.
    pub(crate) fn lost(&self) -> u64 {
        let lost = self.processes.iter().filter_map(|it| it.lost);
        sum(lost.chain([self.lost_by_gone]))
    }
}

/// Returns what was found at that moment, or else before, and when.
fn latest<T: Clone>(
    found: Result<Vec<T>, ()>,
    at: SystemTime,
    before: Option<(&[T], Option<SystemTime>)>,
) -> (Vec<T>, Option<SystemTime>) {
    match (found, before) {
        (Ok(found), _) => (found, Some(at)),
        (Err(()), Some((before, seen))) => (before.to_vec(), seen),
        (Err(()), None) => (Vec::new(), None),
    }
}

fn stopped_at(seen: Option<SystemTime>, clock: Clock) -> Clock {
    seen.map_or(clock, Clock::Stopped)
}

/// Returns the sum of numbers that others have written.
fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}
