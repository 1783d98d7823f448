//! A process that uses locks, as the page shows it.

use crate::claim::Who;
use lock_runtime::ProcessInfo;
use std::time::{Duration, SystemTime};

/// How old the report may be of a process that hears the asks, which come with each look.
const FRESH: Duration = Duration::from_secs(15);

/// A process that has reported.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) who: Who,
    pub(crate) started: SystemTime,
    pub(crate) held: Option<u64>,
    pub(crate) waiting: Option<u64>,
    pub(crate) lost: Option<u64>,
    /// Its report names all its locks.
    pub(crate) is_complete: bool,
    /// It reported a moment ago.
    pub(crate) is_fresh: bool,
    /// When it reported, if it should have done so again by now.
    pub(crate) silent_since: Option<SystemTime>,
    pub(crate) is_this: bool,
}

impl Process {
    pub(crate) fn of(info: &ProcessInfo, at: SystemTime, own: &str) -> Process {
        let who = Who::of_process(info);
        Process {
            is_this: who.id.as_deref() == Some(own),
            who,
            started: info.started(),
            held: info.held(),
            waiting: info.waiting(),
            lost: info.lost(),
            is_complete: info.unlisted() == 0,
            is_fresh: info.age().is_some_and(|age| age < FRESH),
            silent_since: info.silence().and_then(|it| at.checked_sub(it)),
        }
    }
}
