//! The names of records: a lock's is its own. No key of a lock begins with a colon, so the others do.

use crate::process::ProcessId;
use std::sync::Arc;

/// The longest name of a record in bytes, which every store is expected to take.
const MAX_NAME: usize = 1000;

/// The names of one prefix.
pub(crate) struct Keys {
    pub(crate) asks: Arc<str>,
    /// What the names of reports begin with.
    pub(crate) reports: String,
    /// What all begin with that are no locks.
    others: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Keys {
        Keys {
            asks: format!("{prefix}::asks").into(),
            reports: format!("{prefix}::process:"),
            others: format!("{prefix}:"),
        }
    }

    pub(crate) fn longest_key(&self) -> usize {
        // `others` has a colon behind the prefix.
        (MAX_NAME + 1).saturating_sub(self.others.len())
    }

    pub(crate) fn is_lock(&self, name: &str) -> bool {
        !name.starts_with(&self.others)
    }

    pub(crate) fn report(&self, process: ProcessId) -> String {
        format!("{}{process}", self.reports)
    }

    /// Returns the name of what others recall from that process.
    pub(crate) fn recalls(&self, process: ProcessId) -> String {
        format!("{}:recalls:{process}", self.others)
    }

    /// Returns the process whose report that is.
    pub(crate) fn reporter(&self, name: &str) -> Option<ProcessId> {
        ProcessId::parse(name.strip_prefix(&self.reports)?)
    }

    /// Returns the name of a record with which a process tries whether it may write.
    pub(crate) fn trial(&self, process: ProcessId) -> String {
        format!("{}:trial:{process}", self.others)
    }
}
