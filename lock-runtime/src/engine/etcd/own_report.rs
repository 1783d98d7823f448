//! The last report of this process, as long as it is to be stored again.

use crate::process::ProcessId;
use crate::util::sync::Mutex;
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct OwnReport {
    last: Mutex<Option<(ProcessId, Arc<str>)>>,
    /// It is stored by one task at a time, so that the last one remains.
    pub(crate) turn: tokio::sync::Mutex<()>,
}

impl OwnReport {
    pub(crate) fn set(&self, process: ProcessId, report: Arc<str>) {
        *self.last.lock() = Some((process, report));
    }

    pub(crate) fn get(&self) -> Option<(ProcessId, Arc<str>)> {
        self.last.lock().clone()
    }

    pub(crate) fn forget(&self) {
        *self.last.lock() = None;
    }
}
