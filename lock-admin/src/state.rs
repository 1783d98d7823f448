//! What the page shows: everything redacted, in its order.

use crate::history::{History, Lane};
use crate::lock::Lock;
use crate::look::{Check, Look, MOST};
use crate::options::Options;
use crate::problem::{Evidence, Problem, problems};
use crate::process::Process;
use crate::recorder::{Event, LOST};
use crate::template::{Template, templates};
use crate::text::visible;
use lock_runtime::Warning;
use std::time::{Duration, SystemTime};

/// How many events are shown.
const EVENTS: usize = 20;

/// Everything that is known at one moment.
pub(crate) struct State {
    pub(crate) at: SystemTime,
    pub(crate) server: String,
    pub(crate) ping: Result<Duration, String>,
    pub(crate) warnings: Vec<Warning>,
    /// Those that are held longest first.
    pub(crate) locks: Vec<Lock>,
    pub(crate) is_cut: bool,
    pub(crate) templates: Vec<Template>,
    /// The durations of templates are of the service's own calls.
    pub(crate) is_recorded: bool,
    pub(crate) processes: Vec<Process>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) events: Vec<Event>,
    pub(crate) problems: Vec<Problem>,
}

impl State {
    /// Puts together what was seen, and what came before it.
    pub(crate) fn of(look: Look, check: &Check, options: &Options, history: &mut History) -> State {
        let Look {
            at,
            ping,
            locks,
            processes,
            stats,
        } = look;
        let mut missing = Vec::new();
        let mut told = |reason: String, what: &str| missing.push(format!("{what}: {reason}"));
        let locks = locks.unwrap_or_else(|reason| {
            told(reason, "The locks can't be listed");
            Vec::new()
        });
        let processes = processes.unwrap_or_else(|reason| {
            told(reason, "The processes can't be listed");
            Vec::new()
        });
        let is_cut = locks.len() >= MOST;
        let mut locks: Vec<_> = locks
            .iter()
            .map(|lock| Lock::of(lock, at, options))
            .collect();
        let recorder = options.recorder.as_ref();
        let recorded = recorder.map(|recorder| recorder.recorded());
        let own = options.manager.process_id().to_string();
        let mut processes: Vec<_> = processes
            .iter()
            .map(|info| Process::of(info, at, &own))
            .collect();
        history.add(at, &mut locks, &mut processes, &ping, recorded.is_some());
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
        events.truncate(EVENTS);
        let server = visible(options.manager.server());
        let problems = problems(&Evidence {
            at,
            server: &server,
            ping: &ping,
            servers_down: stats.servers_down,
            warnings: &check.warnings,
            missing: &missing,
            locks: &locks,
            events: &events,
        });
        State {
            at,
            server,
            ping,
            warnings: check.warnings.clone(),
            templates: templates(&locks, recorded.as_ref(), history, at),
            is_recorded: recorded.is_some(),
            locks,
            is_cut,
            processes,
            lanes: history.lanes(at),
            events,
            problems,
        }
    }

    /// Returns how many holds of calls are known.
    pub(crate) fn held(&self) -> u64 {
        self.locks.iter().flat_map(Lock::in_calls).count() as u64
    }

    /// Returns how many locks are kept for the next calls of their processes.
    pub(crate) fn kept(&self) -> u64 {
        let holders = self.locks.iter().flat_map(|lock| &lock.holders);
        holders.filter(|it| it.is_kept).count() as u64
    }

    /// Returns how many processes wait.
    pub(crate) fn waiting(&self) -> u64 {
        sum(self.locks.iter().map(|lock| lock.waiting))
    }

    /// Returns how many locks the processes have lost.
    pub(crate) fn lost(&self) -> u64 {
        sum(self.processes.iter().filter_map(|it| it.lost))
    }
}

/// Returns the sum of numbers that others have written.
fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}
