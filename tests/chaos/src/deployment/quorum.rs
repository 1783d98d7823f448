//! Three or five independent servers.

use std::thread;

use crate::fault::Kind;
use lock_test_support::rng::Rng;
use lock_test_support::server::Server;
use lock_test_support::time::millis;

use super::independent::Independent;
use super::{KEYS, Limits, Links, PROCESSES, open_to_all};

pub struct Quorum;

impl Quorum {
    /// Faults take down a minority at a time, or a majority: then no lock can be acquired, and exclusion
    /// still holds. A server that returns empty stays down until all leases have ended; or it may return
    /// earlier, and keys are deleted, too.
    pub fn start(rng: &mut Rng) -> Independent {
        let ttl = millis(800);
        let (members, variant) = match rng.one_in(2) {
            true => (3, ["3, remember", "3, forget"]),
            false => (5, ["5, remember", "5, forget"]),
        };
        let exclusive = !rng.one_in(4);
        let too_many = usize::from(rng.one_in(3));
        let start = || Server::with(None, |_, _| open_to_all());
        let members: Vec<_> = thread::scope(|scope| {
            let members: Vec<_> = (0..members).map(|_| scope.spawn(start)).collect();
            let members = members.into_iter().map(|member| member.join().unwrap());
            members.collect()
        });
        let limits = Limits {
            variant: variant[usize::from(!exclusive)],
            ttl,
            keys: KEYS,
            processes: PROCESSES,
            managers: 1,
            replicas: 0,
            servers: members.len(),
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
            away: members.len() / 2 + too_many,
            needed: members.len().div_ceil(2),
            absence: if exclusive { ttl } else { millis(0) },
            stop: millis(2000),
            exclusive,
            account: rng.one_in(2),
            overheard: false,
        };
        Independent::new(members, limits)
    }
}
