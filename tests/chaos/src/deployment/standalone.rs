//! A standalone server.

use std::time::Duration;

use crate::fault::Kind;
use lock_test_support::clocks::Clocks;
use lock_test_support::rng::Rng;
use lock_test_support::server::Server;
use lock_test_support::time::millis;

use super::independent::Independent;
use super::{KEYS, Limits, Links, PROCESSES, open_to_all};

pub struct Standalone;

impl Standalone {
    /// A server that returns empty does so when all leases have ended; or it may return earlier, and keys are
    /// deleted, too. In another variant its clock is set, so that it ends leases too soon or too late.
    pub fn start(rng: &mut Rng) -> Independent {
        let ttl = millis(800);
        let remembers = Self::that_remembers(ttl);
        // When its counter of fencing tokens is lost, too, the server has only its clock to continue from.
        let keeps_tokens = |kind: &Kind| !matches!(kind, Kind::ServerForgot | Kind::Flushed);
        let remembers = Limits {
            account: rng.one_in(2),
            overheard: rng.one_in(3),
            ..remembers
        };
        Self::with(match rng.below(8) {
            0 | 1 => Limits {
                variant: "forgets",
                absence: millis(0),
                exclusive: false,
                ..remembers
            },
            2 => Limits {
                variant: "is late",
                can: remembers.can.into_iter().filter(keeps_tokens).collect(),
                clocks: true,
                exclusive: false,
                ..remembers
            },
            _ => remembers,
        })
    }

    pub fn with(limits: Limits) -> Independent {
        let options = open_to_all();
        let words: Vec<_> = options.iter().map(String::as_str).collect();
        let server = match limits.clocks {
            true => Server::by(Clocks::correct(), &words),
            false => Server::with(None, |_, _| options),
        };
        Independent::new(vec![server], limits)
    }

    pub fn that_remembers(ttl: Duration) -> Limits {
        Limits {
            variant: "remembers",
            ttl,
            keys: KEYS,
            processes: PROCESSES,
            managers: 1,
            replicas: 0,
            servers: 1,
            changes: false,
            links: Links::OfWorkers,
            can: [
                &Kind::PROCESS[..],
                &Kind::SERVER,
                &Kind::NETWORK,
                &Kind::COMMAND,
                &Kind::REFUSAL,
                &[Kind::ClockStepped],
            ]
            .concat(),
            clocks: false,
            away: 1,
            needed: 1,
            absence: ttl,
            stop: millis(2000),
            exclusive: true,
            account: false,
            overheard: false,
        }
    }
}
