//! Reports to `tracing`, with the feature of that name.

use crate::error::LostCause;
use crate::trace::limit::Trouble;
use crate::util::panics::contain;
use crate::util::sync::{Mutex, MutexGuard};
use crate::util::time::{elapsed_since, now};
use crate::warning::{Warning, WarningKind};
use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::dispatcher::{Dispatch, with_default};
use tracing::span::Id;
use tracing::{Span, debug, field, info, warn};

/// The span of a hold.
pub(crate) struct LockSpan {
    span: Span,
    since: Instant,
}

impl LockSpan {
    pub(crate) fn start(template: &'static str, key: &str, asked: Instant) -> LockSpan {
        let open = || {
            let span = tracing::info_span!(
                "distributed_lock",
                template = field::Empty,
                key,
                waited = milliseconds(elapsed_since(asked)),
                held = field::Empty,
            );
            if !template.is_empty() {
                span.record("template", template);
            }
            span
        };
        LockSpan {
            span: contain(open).unwrap_or_else(Span::none),
            since: now(),
        }
    }

    /// Runs the user's code in the span.
    pub(crate) fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        self.span.in_scope(work)
    }

    /// A handle with which another thread reports the loss of the hold.
    pub(crate) fn handle(&self) -> SpanHandle {
        SpanHandle(contain(|| self.span.clone()).unwrap_or_else(Span::none))
    }
}

impl Drop for LockSpan {
    fn drop(&mut self) {
        let span = std::mem::replace(&mut self.span, Span::none());
        let held = milliseconds(elapsed_since(self.since));
        contain(|| _ = span.record("held", held));
        contain(|| drop(span));
    }
}

/// A hold's span with its subscriber. Dropping the handle calls the subscriber.
pub(crate) struct SpanHandle(Span);

impl SpanHandle {
    /// Returns `true` if no subscriber records the span.
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }
}

impl Default for SpanHandle {
    fn default() -> SpanHandle {
        SpanHandle(Span::none())
    }
}

impl Drop for SpanHandle {
    fn drop(&mut self) {
        let span = std::mem::replace(&mut self.0, Span::none());
        contain(|| drop(span));
    }
}

pub(crate) fn lost(span: &SpanHandle, key: &str, cause: LostCause) {
    let in_span = |(span, subscriber): (&Id, &Dispatch)| {
        with_default(subscriber, || {
            warn!(parent: span.clone(), key, "lock lost: {cause}");
        });
    };
    contain(|| match span.0.with_subscriber(in_span) {
        Some(()) => {}
        None => warn!(key, "lock lost: {cause}"),
    });
}

pub(crate) fn renewal_failed(key: &str, error: &dyn Display, left: Duration) {
    contain(|| debug!(key, %error, left = milliseconds(left), "lease renewal failed; retrying"));
}

pub(crate) fn released_missing_lock(key: &str) {
    contain(|| warn!(key, "released a lock that was no longer held"));
}

/// Returns `true` if any subscriber receives warnings.
pub(crate) fn warnings_enabled() -> bool {
    contain(|| tracing::enabled!(tracing::Level::WARN)).unwrap_or_default()
}

pub(crate) fn unsafe_server(warning: &Warning) {
    contain(|| match warning.kind() {
        WarningKind::NotChecked => info!("{warning}"),
        _ => warn!("lock server: {warning}"),
    });
}

pub(crate) fn master_followed(sentinels: &dyn Display, from: &dyn Display, to: &dyn Display) {
    contain(|| {
        info!(server = %sentinels, %from, %to, "failover followed: the Sentinels report a new master");
    });
}

pub(crate) fn node_replaced(cluster: &dyn Display) {
    contain(|| {
        info!(server = %cluster, "failover followed: a cluster node no longer serves slots");
    });
}

/// Counts failures of many locks, and reports them in one line per server.
#[derive(Default)]
pub(crate) struct Failures(Mutex<HashMap<Arc<str>, Tally>>);

#[derive(Default)]
struct Tally {
    trouble: Trouble,
    renewals: usize,
    releases: usize,
}

impl Failures {
    /// Counts the failures among `sent` renewals to one server.
    pub(crate) fn renewals<E: Display>(
        &self,
        server: impl FnOnce() -> Arc<str>,
        sent: usize,
        answers: &Result<Vec<Result<bool, E>>, E>,
    ) {
        let (failed, error) = match answers {
            Err(error) => (sent, Some(error)),
            Ok(answers) => {
                let errors = || answers.iter().filter_map(|answer| answer.as_ref().err());
                (errors().count(), errors().next_back())
            }
        };
        match error {
            Some(error) => self.failed(server(), (failed, 0), error),
            None => self.succeeded(server),
        }
    }

    /// Counts a background release that was abandoned.
    pub(crate) fn release(&self, server: Arc<str>, key: &str, error: &dyn Display) {
        contain(|| debug!(key, %error, "release not confirmed; the lock expires with its ttl"));
        self.failed(server, (0, 1), error);
    }

    fn failed(&self, server: Arc<str>, (renewals, releases): (usize, usize), error: &dyn Display) {
        let now = now();
        let mut tallies = self.tallies();
        tallies.retain(|known, tally| *known == server || !tally.trouble.is_old(now));
        let tally = tallies.entry(server.clone()).or_default();
        tally.renewals += renewals;
        tally.releases += releases;
        if !tally.trouble.comes(now) {
            return;
        }
        let (renewals, releases) = tally.take();
        drop(tallies);
        contain(|| {
            warn!(%server, renewals, releases, %error, "requests to the lock server fail; retrying");
        });
    }

    fn succeeded(&self, server: impl FnOnce() -> Arc<str>) {
        let mut tallies = self.tallies();
        if tallies.is_empty() {
            return;
        }
        let server = server();
        let Some(tally) = tallies.get_mut(&server) else {
            return;
        };
        if !tally.trouble.ends() {
            return;
        }
        let (renewals, releases) = tally.take();
        drop(tallies);
        contain(|| info!(%server, renewals, releases, "the lock server renews leases again"));
    }

    fn tallies(&self) -> MutexGuard<'_, HashMap<Arc<str>, Tally>> {
        self.0.lock()
    }
}

impl Tally {
    /// Returns and resets the number of failed renewals and releases.
    fn take(&mut self) -> (usize, usize) {
        let renewals = std::mem::take(&mut self.renewals);
        (renewals, std::mem::take(&mut self.releases))
    }
}

/// The reports about one reconnecting connection.
#[derive(Default)]
pub(crate) struct Connection(Trouble);

impl Connection {
    /// Reports a failed attempt to reconnect: once per loss, and at most once per period.
    pub(crate) fn failed(&mut self, server: &dyn Display, carries: &str, error: &dyn Display) {
        if !self.0.lasts() && self.0.comes(now()) {
            contain(|| warn!(%server, carries, %error, "connection lost; reconnecting"));
        }
    }

    /// Reports that the connection was restored, if its loss was reported.
    pub(crate) fn made(&mut self, server: &dyn Display, carries: &str) {
        if self.0.ends() {
            contain(|| info!(%server, carries, "connection restored"));
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
