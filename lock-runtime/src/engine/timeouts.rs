//! How long engines wait for servers, and how long servers keep claims.

use crate::config::Config;
use crate::util::time::{deadline_in, now};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How long an engine waits for its servers.
#[derive(Clone, Debug)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    pub(crate) command: Duration,
    /// When the engine must be open.
    open_by: Instant,
    is_open: Arc<AtomicBool>,
}

impl Timeouts {
    /// Begins the connect timeout of an engine that is opened now.
    pub(crate) fn of(config: &Config) -> Timeouts {
        Timeouts {
            connect: config.connect_timeout,
            command: config.command_timeout,
            open_by: deadline_in(config.connect_timeout),
            is_open: Arc::default(),
        }
    }

    /// Returns how long a server may owe a reply before its connection is abandoned: the command timeout, and
    /// while the engine is opened, the rest of the connect timeout.
    pub(crate) fn silence(&self) -> Duration {
        match self.is_open() {
            true => self.command,
            false => self.open_by.saturating_duration_since(now()),
        }
    }

    /// Returns when a try to connect ends that begins now, and may last for that time.
    pub(crate) fn end_of_try(&self, timeout: Duration) -> Instant {
        match self.is_open() {
            true => deadline_in(timeout),
            false => deadline_in(timeout).min(self.open_by),
        }
    }

    /// Returns by when the credentials for a try that begins now must be known: they may take as long as the
    /// connect timeout, however short the try is, since they say nothing of the server.
    pub(crate) fn credentials_by(&self) -> Instant {
        self.end_of_try(self.connect)
    }

    /// Returns `true` once the engine is open.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Records that the engine is open.
    pub(crate) fn opened(&self) {
        self.is_open.store(true, Ordering::Release);
    }
}

/// Why a request failed that has no reply by its deadline, and a remedy.
pub(crate) const NO_REPLY: &str =
    "no reply in time; if the path to the server is slow, raise `command_timeout`";

/// How long a claim stays in a queue without polling.
pub(crate) const WAITER_TTL: Duration = Duration::from_secs(25);

/// The lease of a grant: short, so that a dead waiter delays the others little. The scripts use the same
/// value.
pub(crate) const GRANT_TTL: Duration = Duration::from_secs(2);

/// How long a claim has to reply when another claim found the lock free. The lock is reserved for 10 ms
/// longer.
pub(crate) const WAKE_TTL: Duration = Duration::from_millis(190);

/// How long newcomers find a lock held after its last lease has ended, once clients wait for it. The scripts
/// use the same value.
pub(crate) const GRACE: Duration = Duration::from_millis(500);

/// How many claims at the front of a queue recall the lock from a process that may keep it. The scripts use
/// the same value.
pub(crate) const RECALLING: u64 = 3;

/// How long a claim at the front that cannot acquire the lock may be silent while claims behind it could. The
/// scripts use the same value.
pub(crate) const MAX_SILENCE: Duration = Duration::from_millis(1500);

/// How long the release of an acquisition without a reply is repeated at least: a frozen server carries the
/// acquisition out when it is back, and the ttl begins only then.
pub(crate) const OUTAGE: Duration = Duration::from_secs(600);

/// How long a canceled claim is remembered: longer than any of its requests can be in flight.
pub(crate) const TOMBSTONE_TTL: Duration = Duration::from_secs(50);
