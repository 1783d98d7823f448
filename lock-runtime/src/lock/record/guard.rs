//! The records of a guard, from its acquisition to its end.

use crate::error::LostCause;
use crate::event::LockEvent;
use crate::lock::context::Context;
use crate::metrics::Active;
use crate::site::Purpose;
use crate::trace::{self, LockSpan};
use crate::util::time::{elapsed_since, now};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// From where a guard has its lock. Of several locks, the greatest counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// The process had kept it.
    Kept,
    /// Another guard of this process passed it on, or shares it.
    Guard,
    Server,
}

/// A guard, and its span. The guard and its holds share it: the first to notice the end reports it, and no
/// other does.
pub(crate) struct GuardRecord {
    /// When it was acquired; `None` if there is no one to report to.
    since: Option<Instant>,
    pub(crate) purpose: Purpose,
    span: LockSpan,
    active: Active,
    has_ended: AtomicBool,
}

impl GuardRecord {
    /// Reports that a call which began at `started` has acquired its lock from there.
    pub(crate) fn begin(
        context: &Context,
        key: &str,
        purpose: Purpose,
        started: Instant,
        source: Source,
    ) -> Arc<GuardRecord> {
        let since = context.telemetry.is_heard().then(now);
        let waited = since.map_or(Duration::ZERO, |since| {
            since.saturating_duration_since(started)
        });
        let active = Active::hold(purpose.site);
        context.telemetry.publish(&LockEvent::Acquired {
            key,
            site: purpose.site,
            label: purpose.label(),
            waited,
            locally: source != Source::Server,
            resumed: source == Source::Kept,
        });
        Arc::new(GuardRecord {
            since,
            span: LockSpan::start(key, &purpose, waited),
            purpose,
            active,
            has_ended: AtomicBool::new(false),
        })
    }

    /// Runs the user's code in the span.
    pub(crate) fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        self.span.in_scope(work)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Reports that the guard has ended while it held its lock.
    pub(crate) fn released(&self, context: &Context, key: &str, confirmed: bool) {
        if let Some(held) = self.end() {
            context.telemetry.publish(&LockEvent::Released {
                key,
                site: self.purpose.site,
                label: self.purpose.label(),
                held,
                confirmed,
            });
        }
    }

    /// Reports that the lock of that key was lost. The first of several keys ends the guard.
    pub(crate) fn lost(&self, context: &Context, key: &str, cause: LostCause) {
        trace::lost(Some(&self.span), key, cause);
        self.report_lost(context, key, cause);
    }

    /// Reports, at the end of the guard, that its lock is lost, unless that was reported when it was noticed.
    pub(crate) fn ended_without_lock(&self, context: &Context, key: &str, cause: LostCause) {
        if self.report_lost(context, key, cause) {
            trace::lost(Some(&self.span), key, cause);
        }
    }

    fn report_lost(&self, context: &Context, key: &str, cause: LostCause) -> bool {
        let held = self.end();
        if let Some(held) = held {
            context.telemetry.publish(&LockEvent::Lost {
                key,
                site: self.purpose.site,
                label: self.purpose.label(),
                held,
                cause,
            });
        }
        held.is_some()
    }

    /// Returns for how long the lock was held, or `None` if the end was reported already.
    fn end(&self) -> Option<Duration> {
        if self.has_ended.swap(true, Ordering::AcqRel) {
            return None;
        }
        let held = self.since.map(elapsed_since).unwrap_or_default();
        self.span.ended(held);
        self.active.end();
        Some(held)
    }
}
