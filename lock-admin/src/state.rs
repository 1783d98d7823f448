//! What the page shows: everything redacted, in its order.

use crate::claim::Claim;
use crate::history::{History, Lane};
use crate::lock::Lock;
use crate::look::{Check, Look, MOST};
use crate::options::Options;
use crate::problem::{Evidence, Problem, problems};
use crate::process::Process;
use crate::recorder::{Event, LOST, Quantiles, Recorded};
use crate::text::{age, visible};
use lock_runtime::Warning;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

const NO_TEMPLATE: &str = "no template";

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

/// What a place in the code does.
pub(crate) struct Template {
    pub(crate) name: String,
    pub(crate) held: u64,
    pub(crate) waiting: u64,
    pub(crate) waits: Option<Quantiles>,
    pub(crate) holds: Option<Quantiles>,
    /// The number of locks held, in steps of 5 s.
    pub(crate) spark: Vec<u64>,
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
            let order = |lock: &Lock| (lock.since().unwrap_or(at), lock.key.clone());
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

    /// Returns how many holds are known.
    pub(crate) fn held(&self) -> u64 {
        self.locks
            .iter()
            .map(|lock| lock.holders.len() as u64)
            .sum()
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

fn templates(
    locks: &[Lock],
    recorded: Option<&Recorded>,
    history: &History,
    at: SystemTime,
) -> Vec<Template> {
    #[derive(Default)]
    struct Seen {
        held: u64,
        waiting: u64,
        holds: Vec<Duration>,
        waits: Vec<Duration>,
    }
    let mut seen: BTreeMap<&str, Seen> = BTreeMap::new();
    for lock in locks {
        let template = seen.entry(lock.template()).or_default();
        template.held += lock.holders.len() as u64;
        template.waiting = template.waiting.saturating_add(lock.waiting);
        let ages = |claims: &[Claim]| -> Vec<Duration> {
            let since = claims.iter().filter_map(|it| it.since);
            since.map(|since| age(since, at)).collect()
        };
        template.holds.extend(ages(&lock.holders));
        template.waits.extend(ages(&lock.waiters));
    }
    let calls = recorded.map(|it| &it.calls);
    for name in calls.into_iter().flat_map(|calls| calls.keys()) {
        seen.entry(name).or_default();
    }
    for name in history.templates() {
        seen.entry(name).or_default();
    }
    let mut templates: Vec<_> = seen
        .into_iter()
        .map(|(name, seen)| {
            let (waits, holds) = match calls {
                Some(calls) => {
                    let calls = calls.get(name);
                    let waits = calls.and_then(|it| it.waits.quantiles());
                    (waits, calls.and_then(|it| it.holds.quantiles()))
                }
                None => (quantiles(seen.waits), quantiles(seen.holds)),
            };
            Template {
                name: match name {
                    "" => NO_TEMPLATE.to_owned(),
                    name => visible(name),
                },
                held: seen.held,
                waiting: seen.waiting,
                waits,
                holds,
                spark: history.spark(name, at),
            }
        })
        .collect();
    // Of a lock whose process has not told yet.
    templates.retain(|it| it.held.max(it.waiting) > 0 || it.name != NO_TEMPLATE);
    templates.sort_by_key(|it| std::cmp::Reverse((it.waiting, it.held)));
    templates
}

/// Returns the half and the 99th hundredth.
fn quantiles(mut times: Vec<Duration>) -> Option<Quantiles> {
    times.sort();
    let at = |part: f64| {
        let rank = (times.len() as f64 * part).ceil() as usize;
        times.get(rank.saturating_sub(1)).copied()
    };
    Some((at(0.5)?, at(0.99)?))
}
