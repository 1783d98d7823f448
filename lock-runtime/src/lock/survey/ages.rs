//! The task that measures how long the oldest hold and the oldest wait of each template have lasted. It looks
//! at what there is anyway, so that a call costs no more.

use crate::lock::handoff::Table;
use crate::lock::shared::Shared;
use crate::lock::survey::report::Reported;
use crate::metrics;
use crate::metrics::ages::Ages;
use crate::process::ProcessId;
use crate::site::Site;
use crate::util::io_thread::kept;
use crate::util::time::{deadline_in, now};
use std::time::Duration;

/// How old the ages are at the most: about as old as a scrape.
const PERIOD: Duration = Duration::from_secs(15);

impl Reported {
    /// Starts the task, which ends with the manager and its holds.
    pub(crate) fn start_ages(self) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        if metrics::MEASURES_AGES {
            let (io, manager) = (shared.context.io, shared.context.process);
            io.spawn_detached(kept(move || self.clone().keep_ages(manager)));
        }
    }

    async fn keep_ages(self, manager: ProcessId) {
        let mut due = Some(deadline_in(PERIOD));
        while let Some(shared) = self.shared.upgrade() {
            let context = &shared.context;
            let used = &context.reporter.used_for_ages;
            if due.is_some_and(|due| due <= now()) {
                let is_used = used.take();
                let ages = self.ages(&shared).await;
                let stats = context.telemetry.stats(0);
                // A lock may be in use although neither its hold nor its wait was found at that moment.
                let in_use = is_used || !ages.is_empty() || stats.held > 0 || stats.waiting > 0;
                metrics::set_ages(manager, ages);
                due = in_use.then(|| deadline_in(PERIOD));
            } else if used.get() {
                due = due.or_else(|| Some(deadline_in(PERIOD)));
            }
            let reporter = context.reporter.clone();
            drop(shared);
            reporter.used_for_ages.wait_until(due).await;
        }
        metrics::set_ages(manager, Ages::new());
    }

    async fn ages(&self, shared: &Shared<Table>) -> Ages {
        let (now, mut ages) = (now(), Ages::new());
        let age = |since| now.saturating_duration_since(since);
        let template = |site: Option<&'static Site>| site.map_or("", Site::template);
        shared
            .each_hold(|hold| {
                if let Some((since, site)) = hold.guard() {
                    let oldest = ages.entry(template(site)).or_default();
                    oldest.hold = oldest.hold.max(age(since));
                }
            })
            .await;
        let (waiting, _) = self.claims.some(usize::MAX);
        for (token, name) in waiting {
            for (since, site) in self.queues.waits(&name, token.limit()) {
                let oldest = ages.entry(template(site)).or_default();
                oldest.wait = oldest.wait.max(age(since));
            }
        }
        ages
    }
}
