//! The task that reports.

use crate::lock::claim_events::ClaimEvents;
use crate::lock::context::Context;
use crate::lock::handoff::Table;
use crate::lock::report::text::{ENDED, first_line, report};
use crate::lock::shared::Shared;
use crate::lock::survey::longest::{longest_holds, waits};
use crate::options::Report;
use crate::process_info::Unlisted;
use crate::util::io_thread::kept;
use crate::util::time::{deadline_in, now};
use std::sync::{Arc, Weak};

/// What a report is about.
#[derive(Clone)]
pub(crate) struct Reported {
    pub(crate) shared: Weak<Shared<Table>>,
    pub(crate) queues: Table,
    pub(crate) claims: Arc<ClaimEvents>,
}

impl Reported {
    /// Starts the task, which ends with the manager and its holds.
    pub(crate) fn start(self) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        match shared.context.reporter.mode {
            Report::Off => return,
            Report::Live => shared.context.engine.listen(),
            Report::Periodic => {}
        }
        let running = shared.context.reporter.begin_task();
        let task = kept(move || self.clone().run());
        shared.context.io.spawn_detached(async move {
            task.await;
            drop(running);
        });
    }

    async fn run(self) {
        let mut last = None;
        while let Some(shared) = self.shared.upgrade() {
            let context = &shared.context;
            let reporter = context.reporter.clone();
            let stats = context.telemetry.stats(self.queues.kept());
            if reporter.is_closed() {
                if last.is_some() {
                    store(context, ENDED).await;
                }
                return;
            }
            let in_use = stats.held > 0 || stats.waiting > 0 || stats.kept > 0;
            let due = reporter.due_after(last, context.engine.report_pace(), in_use);
            if due.is_some_and(|due| due <= now()) {
                self.report(&shared, in_use).await;
                last = Some(now());
                continue;
            }
            drop(shared);
            reporter.used.wait_until(due).await;
        }
    }

    async fn report(&self, shared: &Shared<Table>, in_use: bool) {
        let context = &shared.context;
        let reporter = &context.reporter;
        let pace = context.engine.report_pace();
        let next = reporter.begin(pace, in_use);
        let text = match next.asked.is_some() || pace.regular.is_some() {
            true => {
                let mut more = Unlisted::default();
                let holds = longest_holds(&shared.watchdog, &mut more).await;
                let waits = waits(context, &self.queues, &self.claims, &mut more);
                report(
                    (&reporter.identity, next),
                    &context.telemetry.stats(self.queues.kept()),
                    &holds,
                    &waits,
                    more,
                )
            }
            false => first_line(&reporter.identity, next),
        };
        store(context, &text).await;
    }
}

async fn store(context: &Context, text: &str) {
    let deadline = deadline_in(context.command_timeout);
    let stored = context
        .engine
        .report(context.process, text.into(), deadline);
    // Without it, the process is known by its id alone.
    let _ = stored.await;
}
