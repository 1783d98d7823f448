//! When a process reports.

use crate::config::Config;
use crate::engine::report_pace::ReportPace;
use crate::lock::report::identity::Identity;
use crate::lock::report::used::Used;
use crate::metrics::MEASURES_AGES;
use crate::options::Report;
use crate::silence::NextReport;
use crate::util::count::{Count, Counted};
use crate::util::time::now;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::Instant;

/// Reports after the first lock that the process uses, regularly as long as it uses any, and when another
/// process asks.
pub(crate) struct Reporter {
    pub(crate) mode: Report,
    pub(crate) identity: Identity,
    /// Since the last report.
    pub(crate) used: Used,
    /// Since the ages of holds and waits were measured.
    pub(crate) used_for_ages: Used,
    asked: AtomicBool,
    /// The last report has promised another one.
    promised: AtomicBool,
    closed: AtomicBool,
    /// The task that reports.
    running: Arc<Count>,
}

impl Reporter {
    pub(crate) fn new(config: &Config) -> Reporter {
        Reporter {
            mode: config.report,
            identity: Identity::new(config),
            used: Used::new(config.report != Report::Off),
            used_for_ages: Used::new(MEASURES_AGES),
            asked: AtomicBool::new(false),
            promised: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            running: Arc::new(Count::new()),
        }
    }

    /// Returns who this process is, in a few words.
    pub(crate) fn name(&self) -> String {
        let Identity {
            service, host, pid, ..
        } = &self.identity;
        format!("{service} at {host}, pid {pid}")
    }

    /// Records that a lock is acquired or waited for.
    pub(crate) fn on_use(&self) {
        self.used.record();
        self.used_for_ages.record();
    }

    /// Records that another process asks for a report.
    pub(crate) fn on_asked(&self) {
        self.asked.store(true, Ordering::Relaxed);
        self.used.wake();
    }

    /// Counts the task, as long as it has what this returns.
    pub(crate) fn begin_task(&self) -> Counted<Arc<Count>> {
        Counted::begin(self.running.clone())
    }

    /// Ends the task, and that which measures ages once no hold is left.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.used.wake();
        self.used_for_ages.wake();
    }

    /// Ends the task, and waits until it has ended.
    pub(crate) async fn finish(&self) {
        self.close();
        self.running.wait_idle().await;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Begins a report. Returns when the next one is due, as the report says. `in_use` as for
    /// [`due_after`](Self::due_after).
    pub(crate) fn begin(&self, pace: ReportPace, in_use: bool) -> NextReport {
        self.used.take();
        self.promised.store(in_use, Ordering::Relaxed);
        let asked = self.asked.swap(false, Ordering::Relaxed);
        NextReport {
            regular: pace.regular.filter(|_| in_use),
            asked: asked.then_some(pace.least),
        }
    }

    /// Returns when the next report is due after one at `last`, or `None` as long as nothing happens.
    /// `in_use`: locks are held or waited for.
    pub(crate) fn due_after(
        &self,
        last: Option<Instant>,
        pace: ReportPace,
        in_use: bool,
    ) -> Option<Instant> {
        let promised = self.promised.load(Ordering::Relaxed);
        let is_used = in_use || promised || self.used.get();
        let asked = self.asked.load(Ordering::Relaxed);
        match last {
            None => (asked || is_used).then(now),
            Some(last) if asked => Some(last + pace.least),
            Some(last) => Some(last + pace.regular.filter(|_| is_used)?),
        }
    }
}
