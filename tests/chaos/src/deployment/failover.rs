//! The kinds of failover after a master has failed.

use std::time::Duration;

use crate::fault::Kind;
use lock_test_support::rng::Rng;
use lock_test_support::time::millis;

use super::{KEYS, Limits, Links, PROCESSES};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// Another server takes over only when all leases have ended, and the old master is gone for good by
    /// then.
    Late,
    /// Another server takes over at once, and it has all leases.
    Acknowledged,
    /// Another server takes over at once: leases may be lost, and clients may still reach the old master when
    /// it returns.
    Early,
}

impl Failover {
    pub fn by(rng: &mut Rng) -> Self {
        match rng.below(3) {
            0 => Self::Late,
            1 => Self::Acknowledged,
            _ => Self::Early,
        }
    }

    /// Returns the limits for `servers` servers, of which `replicas` may take the place of each master.
    pub fn limits(self, servers: usize, replicas: u32) -> Limits {
        let can = [
            &Kind::PROCESS[..],
            &Kind::SERVER,
            &Kind::NETWORK,
            &Kind::COMMAND,
            &[Kind::ClockStepped],
        ]
        .concat();
        let keeps = |kind: &Kind| self != Self::Acknowledged || *kind != Kind::ServerForgot;
        Limits {
            variant: match self {
                Self::Late => "late failovers",
                Self::Acknowledged => "replicas know",
                Self::Early => "early failovers",
            },
            ttl: match self {
                Self::Late => millis(800),
                // Longer than a failover takes.
                _ => millis(3000),
            },
            keys: KEYS,
            processes: PROCESSES,
            managers: 1,
            replicas: match self {
                Self::Acknowledged => replicas,
                _ => 0,
            },
            servers,
            changes: true,
            links: Links::OfServers,
            can: can.into_iter().filter(keeps).collect(),
            clocks: false,
            away: 1,
            needed: 1,
            absence: match self {
                Self::Late => millis(800),
                _ => Duration::ZERO,
            },
            stop: match self {
                // Too short for a failover.
                Self::Late => millis(600),
                _ => millis(4000),
            },
            exclusive: self != Self::Early,
            account: false,
            overheard: false,
        }
    }

    /// Returns `true` if a server may get a fault now: unless failovers are early, the servers must be
    /// settled.
    pub fn may_begin(self, is_settled: impl FnOnce() -> bool) -> bool {
        self == Self::Early || is_settled()
    }

    /// Returns how long a master must be silent before it counts as failed. A Sentinel counts from the last
    /// reply that it received, up to a second before.
    pub fn silence(self) -> Duration {
        match self {
            Self::Late => millis(2200),
            _ => millis(1000),
        }
    }
}
