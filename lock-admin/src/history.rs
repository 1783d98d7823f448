//! What is known from earlier looks, while the page is open.

use crate::claim::Who;
use crate::lock::Lock;
use crate::problem::NEWS;
use crate::process::Process;
use crate::recorder::{Event, LOST, keep};
use crate::text::{age, count, millis};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::{Duration, SystemTime};

/// What the timeline shows.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);

/// The step of the timeline and of the sparklines.
pub(crate) const STEP: Duration = Duration::from_secs(5);

/// The steps of a sparkline: five minutes.
pub(crate) const STEPS: usize = 60;

/// How many locks the timeline shows, and how many holds it remembers.
const LANES: usize = 10;
const BARS: usize = 4000;

/// How many locks are named that may be the lost one.
const ENDED: usize = 5;

/// Of how many processes that are gone it is known how many locks they have lost.
const GONE: usize = 1000;

/// How many events are kept.
const EVENTS: usize = 50;

/// The precision with which two looks know the beginning of a hold.
const JITTER: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(crate) struct History {
    /// By row, token and beginning.
    bars: HashMap<(String, String, SystemTime), Bar>,
    /// When the holds that were seen last began, by row, token and whether they were kept.
    begun: HashMap<(String, String, bool), SystemTime>,
    held: BTreeMap<String, VecDeque<(u64, u64)>>,
    /// The steps in which the locks were seen.
    seen: VecDeque<u64>,
    /// When the waits that go on were seen first, by row and token.
    waits: HashMap<(String, String), SystemTime>,
    /// How many locks each process has lost; `None` before the first look.
    lost: Option<HashMap<String, (u64, Who)>>,
    /// The same of processes that are gone, or do not report as long as they use no lock.
    gone: HashMap<String, u64>,
    is_up: Option<bool>,
    events: VecDeque<Event>,
}

/// A hold that was seen.
#[derive(Clone)]
pub(crate) struct Bar {
    key: String,
    query: String,
    pub(crate) who: String,
    /// No call had it.
    pub(crate) is_kept: bool,
    pub(crate) from: SystemTime,
    pub(crate) to: SystemTime,
    /// When it was not seen any more.
    missed: Option<SystemTime>,
    pub(crate) is_contended: bool,
}

/// A lock in the timeline.
pub(crate) struct Lane {
    pub(crate) key: String,
    pub(crate) query: String,
    pub(crate) bars: Vec<Bar>,
}

impl History {
    /// Adds what was seen, and gives each hold the beginning that was reported first.
    pub(crate) fn add(
        &mut self,
        at: SystemTime,
        locks: Option<&mut [Lock]>,
        processes: Option<&[Process]>,
        ping: &Result<Duration, String>,
        has_own_losses: bool,
    ) {
        self.add_ping(at, ping);
        if let Some(locks) = locks {
            self.add_holds(at, locks);
            self.add_templates(at, locks);
        }
        if let Some(processes) = processes {
            self.add_processes(at, processes, has_own_losses);
        }
    }

    fn add_ping(&mut self, at: SystemTime, ping: &Result<Duration, String>) {
        let is_up = ping.is_ok();
        match (self.is_up.replace(is_up), ping) {
            (None | Some(true), Err(reason)) => {
                self.add_event(at, "no reply", reason.clone(), true)
            }
            (Some(false), Ok(_)) => {
                self.add_event(at, "replies", "Locks can be acquired.".into(), false)
            }
            _ => {}
        }
    }

    fn add_holds(&mut self, at: SystemTime, locks: &mut [Lock]) {
        let mut begun = HashMap::new();
        let mut waits = HashMap::new();
        for lock in locks {
            for waiter in &mut lock.waiters {
                let wait = (lock.id.clone(), waiter.token.clone());
                // Another client does not say since when it waits, and the clock of another machine may be
                // ahead.
                let seen = self.waits.get(&wait).copied().unwrap_or(at);
                waiter.since = Some(waiter.since.map_or(seen, |since| since.min(seen)));
                waits.insert(wait, seen);
            }
            for holder in &mut lock.holders {
                let hold = (lock.id.clone(), holder.token.clone(), holder.is_kept);
                let since = holder.since.unwrap_or(at);
                let known = self.begun.get(&hold).copied();
                let is_same =
                    |known: &SystemTime| age(*known, since).max(age(since, *known)) < JITTER;
                let since = known.filter(is_same).unwrap_or(since);
                holder.since = holder.since.map(|_| since);
                begun.insert(hold, since);
                let bar = (lock.id.clone(), holder.token.clone(), since);
                let is_contended = lock.waiting > 0;
                if let Some(bar) = self.bars.get_mut(&bar) {
                    (bar.to, bar.missed) = (at, None);
                    bar.is_contended |= is_contended;
                } else if self.bars.len() < BARS {
                    let new = Bar {
                        key: lock.key.clone(),
                        query: lock.query.clone(),
                        who: holder.who.full(),
                        is_kept: holder.is_kept,
                        from: since,
                        to: at,
                        missed: None,
                        is_contended,
                    };
                    self.bars.insert(bar, new);
                }
            }
        }
        (self.begun, self.waits) = (begun, waits);
        self.bars.retain(|_, bar| {
            if bar.to != at {
                bar.missed.get_or_insert(at);
            }
            age(bar.to, at) < WINDOW + STEP
        });
    }

    fn add_processes(&mut self, at: SystemTime, processes: &[Process], has_own_losses: bool) {
        let mut now = HashMap::new();
        let is_first = self.lost.is_none();
        let mut known = self.lost.take().unwrap_or_default();
        for process in processes {
            let (Some(id), Some(lost)) = (&process.who.id, process.lost) else {
                continue;
            };
            let who = process.who.full();
            let seen = known.remove(id).map(|(lost, _)| lost);
            let before = seen.or(self.gone.remove(id)).unwrap_or(0);
            if lost > before && !(process.is_this && has_own_losses) {
                // Of a process that has long been up, it may have been long ago.
                let is_news = !is_first || age(process.started, at) < NEWS;
                self.add_loss(at, &who, lost - before, is_news);
            }
            if seen.is_none() && !is_first {
                self.add_event(at, "started", who, false);
            }
            now.insert(id.clone(), (lost, process.who.clone()));
        }
        for (id, (lost, who)) in known {
            self.add_event(at, "gone", who.full(), false);
            if lost > 0 && self.gone.len() < GONE {
                self.gone.insert(id, lost);
            }
        }
        self.lost = Some(now);
    }

    fn add_loss(&mut self, at: SystemTime, who: &str, lost: u64, is_news: bool) {
        let locks = count(lost, "lock");
        if !is_news {
            let details = format!("{who} has lost {locks} since it started.");
            return self.add_event(at, LOST, details, false);
        }
        let ended = self.ended(at, who);
        let mut details = format!("{who} has lost {locks}.");
        if ended.len() > 1 {
            details += &format!(" One of these: {}.", ended.join(", "));
        }
        self.add_event(at, LOST, details, true);
        if let ([key], Some(event)) = (&ended[..], self.events.front_mut()) {
            event.key = Some(key.clone());
        }
    }

    /// Returns how many locks have been lost by processes that are gone.
    pub(crate) fn lost_by_gone(&self) -> u64 {
        self.gone
            .values()
            .fold(0, |sum, lost| sum.saturating_add(*lost))
    }

    /// Returns the locks that a process has stopped holding a moment ago.
    fn ended(&self, at: SystemTime, who: &str) -> Vec<String> {
        let is_recent = |missed: SystemTime| age(missed, at) < STEP;
        let bars = self.bars.values();
        let bars = bars.filter(|bar| bar.who == who && bar.missed.is_some_and(is_recent));
        let mut keys: Vec<_> = bars.map(|bar| bar.key.clone()).collect();
        keys.sort();
        keys.dedup();
        keys.truncate(ENDED);
        keys
    }

    fn add_templates(&mut self, at: SystemTime, locks: &[Lock]) {
        let step = step_of(at);
        let mut held: HashMap<&str, u64> = HashMap::new();
        for lock in locks {
            *held.entry(lock.template()).or_default() += lock.in_calls().count() as u64;
        }
        for (name, held) in held {
            let steps = self.held.entry(name.to_owned()).or_default();
            match steps.back_mut() {
                Some((last, most)) if *last == step => *most = (*most).max(held),
                _ => steps.push_back((step, held)),
            }
        }
        if self.seen.back() != Some(&step) {
            self.seen.push_back(step);
        }
        let oldest = step.saturating_sub(STEPS as u64);
        while self.seen.front().is_some_and(|step| *step <= oldest) {
            self.seen.pop_front();
        }
        for steps in self.held.values_mut() {
            while steps.front().is_some_and(|(step, _)| *step <= oldest) {
                steps.pop_front();
            }
        }
        self.held.retain(|_, steps| !steps.is_empty());
    }

    fn add_event(&mut self, at: SystemTime, what: &'static str, details: String, is_bad: bool) {
        let event = Event {
            at,
            what,
            key: None,
            details,
            is_bad,
        };
        keep(&mut self.events, event, EVENTS);
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.iter().cloned().collect()
    }

    /// Returns the templates that were seen in the last five minutes.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &str> {
        self.held.keys().map(String::as_str)
    }

    /// Returns how many locks were held in those of the last steps in which they were seen.
    pub(crate) fn spark(&self, template: &str, at: SystemTime) -> Vec<(u64, u64)> {
        let first = (step_of(at) + 1).saturating_sub(STEPS as u64);
        let held = self.held.get(template).into_iter().flatten();
        let held: HashMap<u64, u64> = held.copied().collect();
        let steps = self.seen.iter().filter(|step| **step >= first);
        let slot = |step: &u64| (step - first, held.get(step).copied().unwrap_or(0));
        steps.map(slot).collect()
    }

    /// Returns what was held in the last minute: contended locks first, then those that changed hands most
    /// often. Returns how many there are, too, and no more than there is room for.
    pub(crate) fn lanes(&self, at: SystemTime) -> (Vec<Lane>, usize) {
        let mut lanes: BTreeMap<&str, Vec<&Bar>> = BTreeMap::new();
        for ((id, _, _), bar) in &self.bars {
            if age(bar.to, at) < WINDOW {
                lanes.entry(id).or_default().push(bar);
            }
        }
        let mut lanes: Vec<_> = lanes.into_values().collect();
        for bars in &mut lanes {
            bars.sort_by_key(|bar| bar.from);
        }
        lanes.sort_by_key(|bars| {
            let is_contended = bars.iter().any(|bar| bar.is_contended);
            let whos: HashSet<_> = bars.iter().map(|bar| &bar.who).collect();
            let since = bars.iter().map(|bar| bar.from).min();
            (
                !is_contended,
                std::cmp::Reverse((whos.len(), bars.len())),
                since,
            )
        });
        let all = lanes.len();
        lanes.truncate(LANES);
        let lane = |bars: Vec<&Bar>| Lane {
            key: bars[0].key.clone(),
            query: bars[bars.len() - 1].query.clone(),
            bars: bars.into_iter().cloned().collect(),
        };
        (lanes.into_iter().map(lane).collect(), all)
    }
}

impl Bar {
    /// Returns the end of what was held, which is open as long as it is.
    pub(crate) fn end(&self) -> Option<SystemTime> {
        self.missed.map(|_| self.to)
    }
}

/// Returns the number of the step in which a moment is.
pub(crate) fn step_of(at: SystemTime) -> u64 {
    millis(at) / STEP.as_millis() as u64
}
