//! What the service's own calls do, as its manager reports.

use crate::histogram::Histogram;
use lock_runtime::LockEvent;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// What an event is called that says which lock was lost.
pub(crate) const LOST: &str = "lost";

/// How many events are kept.
const MOST: usize = 100;

/// Keeps what the service's own locks do, for the page: losses with their keys and causes, and how long its
/// calls wait and hold. Clones share it.
///
/// It is a handler for [`Config::on_event`](lock_runtime::Config::on_event). Without it the page shows what
/// it sees of all processes from outside. It keeps 100 events, and two histograms for each template; it costs
/// a mutex for each event.
///
/// ```
/// use lock_admin::{Admin, Recorder};
/// use lock_runtime::{Config, LockManager};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_runtime::LockError> {
/// let recorder = Recorder::new();
/// let config = Config::new("memory://").on_event(recorder.handler());
/// let admin = Admin::new(LockManager::connect(config).await?).recorder(recorder);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Recorder {
    recorded: Arc<Mutex<Recorded>>,
}

/// What was recorded.
#[derive(Clone, Default)]
pub(crate) struct Recorded {
    pub(crate) calls: BTreeMap<&'static str, Calls>,
    pub(crate) events: VecDeque<Event>,
}

/// How long the calls of a template took.
#[derive(Clone, Default)]
pub(crate) struct Calls {
    pub(crate) waits: Histogram,
    pub(crate) holds: Histogram,
}

/// Something that has happened.
#[derive(Clone)]
pub(crate) struct Event {
    pub(crate) at: SystemTime,
    /// In one word, such as `lost`.
    pub(crate) what: &'static str,
    /// Not redacted.
    pub(crate) key: Option<String>,
    pub(crate) details: String,
    pub(crate) is_bad: bool,
}

impl Recorder {
    /// Creates one without anything in it.
    #[must_use]
    pub fn new() -> Recorder {
        Recorder::default()
    }

    /// Returns the function for [`Config::on_event`](lock_runtime::Config::on_event). It never blocks for
    /// long.
    pub fn handler(&self) -> impl Fn(&LockEvent<'_>) + Send + Sync + 'static + use<> {
        let recorded = self.recorded.clone();
        move |event| {
            let mut recorded = recorded.lock().unwrap_or_else(PoisonError::into_inner);
            recorded.record(event);
        }
    }

    pub(crate) fn recorded(&self) -> Recorded {
        let recorded = self.recorded.lock();
        recorded.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Recorded {
    fn record(&mut self, event: &LockEvent<'_>) {
        match event {
            LockEvent::Acquired { waited, .. } => self.calls_of(event).waits.add(*waited),
            LockEvent::Released { held, .. } => self.calls_of(event).holds.add(*held),
            LockEvent::NotAcquired { waited, .. } => self.calls_of(event).waits.add(*waited),
            LockEvent::Lost {
                key, held, cause, ..
            } => {
                self.calls_of(event).holds.add(*held);
                let held = crate::text::latency(*held);
                self.add_event(LOST, Some(key), format!("after {held}: {cause}"), true);
            }
            LockEvent::Revoked {
                key, by, reason, ..
            } => self.add_event("revoked", Some(key), format!("by {by}: {reason}"), false),
            LockEvent::RenewalFailed {
                server,
                count,
                error,
                ..
            } => {
                let leases = crate::text::count(*count as u64, "lease");
                let details = format!("{leases} at {server}: {error}");
                self.add_event("not renewed", None, details, true);
            }
            LockEvent::ServerDown { server, error, .. } => {
                self.add_event("server down", None, format!("{server}: {error}"), true);
            }
            LockEvent::ServerUp { server, .. } => {
                self.add_event("server up", None, (*server).to_owned(), false);
            }
            _ => {}
        }
    }

    fn calls_of(&mut self, event: &LockEvent<'_>) -> &mut Calls {
        self.calls.entry(event.template()).or_default()
    }

    fn add_event(&mut self, what: &'static str, key: Option<&str>, details: String, is_bad: bool) {
        let event = Event {
            at: SystemTime::now(),
            what,
            key: key.map(str::to_owned),
            details,
            is_bad,
        };
        keep(&mut self.events, event, MOST);
    }
}

/// Adds the newest event. The oldest makes room for it, but losses last.
pub(crate) fn keep(events: &mut VecDeque<Event>, event: Event, most: usize) {
    if events.len() >= most {
        let oldest = events.iter().rposition(|it| it.what != LOST);
        events.remove(oldest.unwrap_or(most - 1));
    }
    events.push_front(event);
}

/// The half and the 99th hundredth of some durations.
pub(crate) type Quantiles = (Duration, Duration);

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_outlast_other_events() {
        let mut events = VecDeque::new();
        for what in [LOST, "server down", "not renewed", "not renewed"] {
            let event = Event {
                at: SystemTime::now(),
                what,
                key: None,
                details: String::new(),
                is_bad: true,
            };
            keep(&mut events, event, 2);
        }
        let kept: Vec<_> = events.iter().map(|it| it.what).collect();
        assert_eq!(kept, ["not renewed", LOST]);
    }
}
