//! What is known of other processes that were in the way for long.

use crate::process::ProcessId;
use crate::process_info::ProcessInfo;
use crate::util::sync::Mutex;
use crate::util::time::{elapsed_since, now};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// For how long a process is not asked about again.
const FRESH: Duration = Duration::from_secs(60);

/// The greatest number of processes that are known.
const MOST: usize = 64;

#[derive(Default)]
pub(crate) struct KnownProcesses(Mutex<HashMap<ProcessId, Known>>);

/// When a call began to ask about it, and what it has reported.
type Known = (Instant, Option<Arc<ProcessInfo>>);

impl KnownProcesses {
    pub(crate) fn get(&self, process: ProcessId) -> Option<Arc<ProcessInfo>> {
        let known = self.0.lock();
        known.get(&process).and_then(|(_, info)| info.clone())
    }

    /// Returns `true` if the caller is to find out about the process, which it must [add](Self::add) then.
    pub(crate) fn begin(&self, process: ProcessId) -> bool {
        let mut known = self.0.lock();
        known.retain(|_, (at, _)| elapsed_since(*at) < FRESH);
        let begins = known.len() < MOST && !known.contains_key(&process);
        if begins {
            known.insert(process, (now(), None));
        }
        begins
    }

    pub(crate) fn add(&self, info: Arc<ProcessInfo>) {
        if let Some((_, known)) = self.0.lock().get_mut(&info.id) {
            *known = Some(info);
        }
    }
}
