//! What happens when a master goes away.

use std::time::Duration;

use crate::fault::Kind;
use crate::support::dice::Dice;
use crate::support::time::millis;

use super::{KEYS, Links, Rules, SEATS};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// Nobody takes its place before all leases have ended, and by then it is away for good.
    Late,
    /// The first thing; and who takes its place knows all leases.
    Acknowledged,
    /// The first thing: what it knew may be lost, and it may still be asked when it comes back.
    Early,
}

impl Failover {
    pub fn by(dice: &mut Dice) -> Self {
        match dice.roll(3) {
            0 => Self::Late,
            1 => Self::Acknowledged,
            _ => Self::Early,
        }
    }

    /// With so many servers, and so many replicas each of which may take a master's place.
    pub fn rules(self, servers: usize, replicas: u32) -> Rules {
        let can = [
            &Kind::PROCESS[..],
            &Kind::SERVER,
            &Kind::NETWORK,
            &Kind::COMMAND,
            &[Kind::ClockStepped],
        ]
        .concat();
        let keeps = |kind: &Kind| self != Self::Acknowledged || *kind != Kind::ServerForgot;
        Rules {
            variant: match self {
                Self::Late => "late failovers",
                Self::Acknowledged => "replicas know",
                Self::Early => "early failovers",
            },
            ttl: match self {
                Self::Late => millis(800),
                // A failover takes less.
                _ => millis(3000),
            },
            keys: KEYS,
            seats: SEATS,
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
                // Too short to be noticed.
                Self::Late => millis(600),
                _ => millis(4000),
            },
            exclusive: self != Self::Early,
            account: false,
            overheard: false,
        }
    }

    /// Who is waited for, or knows all, must be there.
    pub fn may_begin(self, is_settled: impl FnOnce() -> bool) -> bool {
        self == Self::Early || is_settled()
    }

    /// How long a master is silent before it counts as gone. A Sentinel counts from the last answer
    /// that it had, up to a second before.
    pub fn silence(self) -> Duration {
        match self {
            Self::Late => millis(2200),
            _ => millis(1000),
        }
    }
}
