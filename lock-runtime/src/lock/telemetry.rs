//! Counts what happens to the locks of a manager, and reports it to the event handlers and the metrics.

use crate::engine::error::EngineError;
use crate::event::{LockEvent, LockEventHandler, Outcome};
use crate::metrics::{self, Active};
use crate::site::Site;
use crate::stats::Stats;
use crate::util::panics::contain;
use crate::util::sync::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Telemetry {
    counts: Counts,
    handlers: Vec<LockEventHandler>,
    /// The connections to each server that are broken.
    broken: Mutex<HashMap<Arc<str>, u64>>,
}

#[derive(Default)]
struct Counts {
    acquired: AtomicU64,
    acquired_locally: AtomicU64,
    resumed: AtomicU64,
    recalled: AtomicU64,
    busy: AtomicU64,
    taken: AtomicU64,
    unavailable: AtomicU64,
    canceled: AtomicU64,
    rejected: AtomicU64,
    released: AtomicU64,
    lost: AtomicU64,
    renewed: AtomicU64,
    renewals_failed: AtomicU64,
    waits_begun: AtomicU64,
    waits_ended: AtomicU64,
}

impl Telemetry {
    pub(crate) fn new(handlers: Vec<LockEventHandler>) -> Telemetry {
        Telemetry {
            counts: Counts::default(),
            handlers,
            broken: Mutex::default(),
        }
    }

    /// Returns `true` if there is anyone to report more to than the counts, such as times.
    pub(crate) fn is_heard(&self) -> bool {
        cfg!(any(feature = "metrics", feature = "tracing")) || !self.handlers.is_empty()
    }

    /// Counts an event, and reports it. Call it under no mutex: the handlers are the user's code.
    pub(crate) fn publish(&self, event: &LockEvent<'_>) {
        self.counts.add(event);
        metrics::record(event);
        for handler in &self.handlers {
            contain(|| handler(event));
        }
    }

    pub(crate) fn wait_begins(&self, site: Option<&'static Site>) -> Active {
        add(&self.counts.waits_begun, 1);
        Active::wait(site)
    }

    pub(crate) fn wait_ends(&self, active: &Active) {
        add(&self.counts.waits_ended, 1);
        active.end();
    }

    /// Records that a connection is broken, and could not be replaced at once.
    pub(crate) fn connection_broken(&self, server: Arc<str>, error: &EngineError) {
        let mut broken = self.broken.lock();
        let count = broken.entry(server.clone()).or_default();
        *count += 1;
        let is_first = *count == 1;
        drop(broken);
        if is_first {
            let (server, error) = (&*server, &*error.source);
            self.publish(&LockEvent::ServerDown { server, error });
        }
    }

    /// Records that a broken connection was replaced, or is given up.
    pub(crate) fn connection_mended(&self, server: &str) {
        let mut broken = self.broken.lock();
        let Some(count) = broken.get_mut(server) else {
            return;
        };
        *count -= 1;
        if *count > 0 {
            return;
        }
        broken.remove(server);
        drop(broken);
        self.publish(&LockEvent::ServerUp { server });
    }

    /// Returns the counts of a manager that keeps so many locks.
    pub(crate) fn stats(&self, kept: usize) -> Stats {
        let Counts {
            acquired,
            acquired_locally,
            resumed,
            recalled,
            busy,
            taken,
            unavailable,
            canceled,
            rejected,
            released,
            lost,
            renewed,
            renewals_failed,
            waits_begun,
            waits_ended,
        } = &self.counts;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        // Ends before beginnings, so that no difference is negative where they are read in this order.
        let (released, lost, waits_ended) = (read(released), read(lost), read(waits_ended));
        let (acquired, waits_begun) = (read(acquired), read(waits_begun));
        Stats {
            acquired,
            acquired_locally: read(acquired_locally),
            resumed: read(resumed),
            recalled: read(recalled),
            busy: read(busy),
            taken: read(taken),
            unavailable: read(unavailable),
            canceled: read(canceled),
            rejected: read(rejected),
            released,
            lost,
            renewed: read(renewed),
            renewals_failed: read(renewals_failed),
            held: acquired.saturating_sub(released + lost),
            kept: kept as u64,
            waiting: waits_begun.saturating_sub(waits_ended),
            servers_down: self.broken.lock().len() as u64,
        }
    }
}

impl Counts {
    fn add(&self, event: &LockEvent<'_>) {
        match event {
            LockEvent::Acquired {
                locally, resumed, ..
            } => {
                add(&self.acquired, 1);
                if *locally {
                    add(&self.acquired_locally, 1);
                }
                if *resumed {
                    add(&self.resumed, 1);
                }
            }
            LockEvent::NotAcquired { outcome, .. } => {
                let count = match outcome {
                    Outcome::Busy => &self.busy,
                    Outcome::Taken => &self.taken,
                    Outcome::Unavailable => &self.unavailable,
                    Outcome::Canceled => &self.canceled,
                    Outcome::Rejected => &self.rejected,
                };
                add(count, 1);
            }
            LockEvent::Released { .. } => add(&self.released, 1),
            LockEvent::Lost { .. } => add(&self.lost, 1),
            LockEvent::Recalled { .. } => add(&self.recalled, 1),
            LockEvent::Renewed { count, .. } => add(&self.renewed, *count as u64),
            LockEvent::RenewalFailed { count, .. } => add(&self.renewals_failed, *count as u64),
            LockEvent::Revoked { .. }
            | LockEvent::ServerDown { .. }
            | LockEvent::ServerUp { .. } => {}
        }
    }
}

fn add(count: &AtomicU64, n: u64) {
    count.fetch_add(n, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_down_from_its_first_broken_connection_to_its_last() {
        let (sender, lines) = std::sync::mpsc::channel();
        let handler = move |event: &LockEvent<'_>| _ = sender.send(event.to_string());
        let telemetry = Telemetry::new(vec![Arc::new(handler)]);
        let error = EngineError::no_reply();
        for _ in 0..2 {
            telemetry.connection_broken("a".into(), &error);
        }
        telemetry.connection_mended("a");
        assert_eq!(telemetry.stats(0).servers_down, 1);
        telemetry.connection_mended("a");
        assert_eq!(telemetry.stats(0).servers_down, 0);
        drop(telemetry);
        let down = format!("`a` is down: {error}");
        assert_eq!(
            lines.iter().collect::<Vec<_>>(),
            [&*down, "`a` is no longer down"]
        );
    }
}
