//! The reports of processes.

use crate::engine::operations::{REPORT_TTL, StoredReport};
use crate::process::ProcessId;
use crate::util::clock::Timestamp;
use crate::util::sync::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct Reports(Mutex<HashMap<ProcessId, (Arc<str>, Timestamp)>>);

impl Reports {
    pub(crate) fn store(&self, process: ProcessId, report: Arc<str>, now: Timestamp) {
        let mut stored = self.0.lock();
        stored.retain(|_, (_, at)| now.elapsed_since(*at) < REPORT_TTL);
        stored.insert(process, (report, now));
    }

    pub(crate) fn read(&self, of: Option<&[ProcessId]>, now: Timestamp) -> Vec<StoredReport> {
        let stored = self.0.lock();
        let meant = stored.iter();
        let meant = meant.filter(|(process, _)| of.is_none_or(|of| of.contains(process)));
        let reports = meant.map(|(process, (text, at))| StoredReport {
            process: *process,
            text: text.clone(),
            age: Some(now.elapsed_since(*at)),
            revision: 0,
        });
        reports.filter(|it| it.age < Some(REPORT_TTL)).collect()
    }
}
