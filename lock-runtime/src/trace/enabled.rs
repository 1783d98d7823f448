//! Reports to `tracing`, with the feature of that name.

use crate::error::LostCause;
use crate::event::LockEvent;
use crate::site::{Purpose, Site};
use crate::trace::limit::Trouble;
use crate::util::panics::contain;
use crate::util::sync::{Mutex, MutexGuard};
use crate::util::time::now;
use crate::warning::{Warning, WarningKind};
use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tracing::dispatcher::{Dispatch, with_default};
use tracing::span::Id;
use tracing::{Span, debug, error, field, info, warn};

/// The target of all spans and events, which filters name: no module's name, which changes.
const TARGET: &str = "lock_runtime";

/// The span of a hold. Boxed, if a subscriber records it: few do.
pub(crate) struct LockSpan(Option<Box<Span>>);

impl LockSpan {
    pub(crate) fn start(key: &str, purpose: &Purpose, waited: Duration) -> LockSpan {
        let open = || {
            let span = tracing::info_span!(
                target: TARGET,
                "distributed_lock",
                template = template(purpose),
                key,
                label = purpose.label(),
                waited = milliseconds(waited),
                held = field::Empty,
            );
            (!span.is_none()).then(|| Box::new(span))
        };
        LockSpan(contain(open).flatten())
    }

    /// Runs the user's code in the span.
    pub(crate) fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.0 {
            Some(span) => span.in_scope(work),
            None => work(),
        }
    }

    /// Records for how long the lock was held.
    pub(crate) fn ended(&self, held: Duration) {
        if let Some(span) = &self.0 {
            contain(|| _ = span.record("held", milliseconds(held)));
        }
    }
}

impl Drop for LockSpan {
    fn drop(&mut self) {
        let span = self.0.take();
        contain(|| drop(span));
    }
}

/// The span of a call while it waits for its turn.
pub(crate) struct WaitSpan(Option<Span>);

impl WaitSpan {
    pub(crate) fn start(key: &str, purpose: &Purpose) -> WaitSpan {
        let (template, label) = (template(purpose), purpose.label());
        WaitSpan(contain(
            || tracing::info_span!(target: TARGET, "distributed_lock.acquire", template, key, label),
        ))
    }
}

impl Drop for WaitSpan {
    fn drop(&mut self) {
        let span = self.0.take();
        contain(|| drop(span));
    }
}

fn template(purpose: &Purpose) -> Option<&'static str> {
    purpose.site.map(Site::template)
}

/// Reports a loss, in the span of its call on whatever thread it is noticed.
pub(crate) fn lost(span: Option<&LockSpan>, key: &str, cause: LostCause) {
    let in_span = |(span, subscriber): (&Id, &Dispatch)| {
        with_default(subscriber, || {
            warn!(target: TARGET, parent: span.clone(), key, "lock lost: {cause}");
        });
    };
    let span = span.and_then(|span| span.0.as_ref());
    contain(
        || match span.and_then(|span| span.with_subscriber(in_span)) {
            Some(()) => {}
            None => warn!(target: TARGET, key, "lock lost: {cause}"),
        },
    );
}

/// Reports that this process gives up a lock that an operator wants back.
pub(crate) fn gives_up(key: &str, by: &str, reason: &str) {
    contain(|| warn!(target: TARGET, key, by, reason, "lock revoked"));
}

/// Reports that this process has taken a lock from its holder, or asked it to stop.
pub(crate) fn revokes(key: &str, by: &str, reason: &str, token: &str, forced: bool) {
    contain(|| warn!(target: TARGET, key, by, reason, token, forced, "revoking a lock"));
}

/// Reports a call that ends without its lock, in the span of its caller.
pub(crate) fn not_acquired(event: &LockEvent<'_>) {
    let LockEvent::NotAcquired {
        key,
        site,
        waited,
        outcome,
        error,
        ..
    } = *event
    else {
        return;
    };
    let template = site.map(Site::template);
    let (waited, outcome) = (milliseconds(waited), outcome.as_str());
    contain(|| match error {
        Some(error) => {
            debug!(target: TARGET, template, key, waited, outcome, %error, "lock not acquired")
        }
        None => debug!(target: TARGET, template, key, waited, outcome, "lock not acquired"),
    });
}

pub(crate) fn renewal_failed(key: &str, error: &dyn Display, left: Duration) {
    contain(
        || debug!(target: TARGET, key, %error, left = milliseconds(left), "lease renewal failed; retrying"),
    );
}

pub(crate) fn released_missing_lock(key: &str) {
    contain(|| warn!(target: TARGET, key, "released a lock that was no longer held"));
}

/// Returns `true` if any subscriber receives warnings.
pub(crate) fn warnings_enabled() -> bool {
    contain(|| tracing::enabled!(target: TARGET, tracing::Level::WARN)).unwrap_or_default()
}

pub(crate) fn unsafe_server(warning: &Warning) {
    contain(|| match warning.kind() {
        WarningKind::NotChecked => info!(target: TARGET, "{warning}"),
        _ => warn!(target: TARGET, "lock server: {warning}"),
    });
}

/// Reports that a manager has started without a connection.
pub(crate) fn not_connected(server: &str, error: &dyn Display) {
    contain(|| warn!(target: TARGET, server, %error, "started without a connection; connecting"));
}

/// Reports that a server which could not be reached at the start refuses this process now, or is refused by
/// it.
pub(crate) fn refused(server: &str, error: &dyn Display) {
    contain(
        || error!(target: TARGET, server, %error, "no lock is granted: the lock server can't be used"),
    );
}

/// Reports the first connection of a manager that has started without one.
pub(crate) fn connected(server: &str) {
    contain(|| info!(target: TARGET, server, "connected to the lock server"));
}

pub(crate) fn master_followed(sentinels: &dyn Display, from: &dyn Display, to: &dyn Display) {
    contain(|| {
        info!(target: TARGET, server = %sentinels, %from, %to, "failover followed: the Sentinels report a new master");
    });
}

pub(crate) fn node_replaced(cluster: &dyn Display) {
    contain(|| {
        info!(target: TARGET, server = %cluster, "failover followed: a cluster node no longer serves slots");
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
    /// Counts the renewals to one server that failed, with the last error, or records that none did.
    pub(crate) fn renewals<E: Display>(
        &self,
        server: impl FnOnce() -> Arc<str>,
        failed: Option<(usize, &E)>,
    ) {
        match failed {
            Some((count, error)) => self.failed(server(), (count, 0), error),
            None => self.succeeded(server),
        }
    }

    /// Counts a background release that was abandoned.
    pub(crate) fn release(&self, server: Arc<str>, key: &str, error: &dyn Display) {
        contain(
            || debug!(target: TARGET, key, %error, "release not confirmed; the lock expires with its ttl"),
        );
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
            warn!(target: TARGET, %server, renewals, releases, %error, "requests to the lock server fail; retrying");
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
        contain(
            || info!(target: TARGET, %server, renewals, releases, "the lock server renews leases again"),
        );
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
            contain(
                || warn!(target: TARGET, %server, carries, %error, "connection lost; reconnecting"),
            );
        }
    }

    /// Reports that the connection was restored, if its loss was reported.
    pub(crate) fn made(&mut self, server: &dyn Display, carries: &str) {
        if self.0.ends() {
            contain(|| info!(target: TARGET, %server, carries, "connection restored"));
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
