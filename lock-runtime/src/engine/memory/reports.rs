//! What processes tell of themselves, and who listens to what they ask.

use crate::engine::event::{EngineEvent, EventHandler};
use crate::engine::operations::{REPORT_TTL, StoredReport};
use crate::process::ProcessId;
use crate::util::clock::Timestamp;
use crate::util::sync::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// A handler that may be gone.
type Listener = Weak<dyn Fn(EngineEvent) + Send + Sync>;

#[derive(Default)]
pub(crate) struct Reports {
    stored: Mutex<HashMap<ProcessId, (Arc<str>, Timestamp)>>,
    listeners: Mutex<Vec<Listener>>,
}

impl Reports {
    pub(crate) fn store(&self, process: ProcessId, report: Arc<str>, now: Timestamp) {
        let mut stored = self.stored.lock();
        stored.retain(|_, (_, at)| now.elapsed_since(*at) < REPORT_TTL);
        stored.insert(process, (report, now));
    }

    pub(crate) fn read(&self, of: Option<&[ProcessId]>, now: Timestamp) -> Vec<StoredReport> {
        let stored = self.stored.lock();
        let meant = stored.iter();
        let meant = meant.filter(|(process, _)| of.is_none_or(|of| of.contains(process)));
        let reports = meant.map(|(process, (text, at))| StoredReport {
            process: *process,
            text: text.clone(),
            age: Some(now.elapsed_since(*at)),
        });
        reports.filter(|it| it.age < Some(REPORT_TTL)).collect()
    }

    /// Lets the handler receive what is asked, as long as it exists.
    pub(crate) fn listen(&self, handler: &EventHandler) {
        let mut listeners = self.listeners.lock();
        listeners.retain(|known| known.strong_count() > 0);
        listeners.push(Arc::downgrade(handler));
    }

    pub(crate) fn ask(&self, text: &str) {
        let text: Arc<str> = text.into();
        let known = self.listeners.lock();
        let listeners: Vec<_> = known.iter().filter_map(Weak::upgrade).collect();
        drop(known);
        for listener in listeners {
            listener(EngineEvent::Asked(text.clone()));
        }
    }
}
