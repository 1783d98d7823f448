//! How long engines wait for servers, and how long servers keep claims.

use crate::config::Config;
use std::time::Duration;

/// How long an engine waits for its servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    /// A connection without a reply for this long is abandoned.
    pub(crate) command: Duration,
}

impl Timeouts {
    pub(crate) fn of(config: &Config) -> Timeouts {
        Timeouts {
            connect: config.connect_timeout,
            command: config.command_timeout,
        }
    }
}

/// How long a claim stays in a queue without polling.
pub(crate) const WAITER_TTL: Duration = Duration::from_secs(25);

/// The lease of a grant: short, so that a dead waiter delays the others little. The scripts use the same
/// value.
pub(crate) const GRANT_TTL: Duration = Duration::from_secs(2);

/// How long a claim has to reply when another claim found the lock free. The lock is reserved for 10 ms
/// longer.
pub(crate) const WAKE_TTL: Duration = Duration::from_millis(190);

/// How long a claim at the front that cannot acquire the lock may be silent while claims behind it could. The
/// scripts use the same value.
pub(crate) const MAX_SILENCE: Duration = Duration::from_millis(1500);

/// How long the release of an unanswered acquisition is repeated at least: a frozen server carries the
/// acquisition out when it is back, and the ttl begins only then.
pub(crate) const OUTAGE: Duration = Duration::from_secs(600);

/// How long a canceled claim is remembered: longer than any of its requests can be in flight.
pub(crate) const TOMBSTONE_TTL: Duration = Duration::from_secs(50);
