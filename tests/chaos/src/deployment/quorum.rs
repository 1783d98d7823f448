//! Three or five independent servers.

use std::thread;

use lock_test_support::rng::Rng;
use lock_test_support::server::Server;
use lock_test_support::time::millis;

use super::independent::Independent;
use super::{Limits, Standalone, open_to_all};

pub struct Quorum;

impl Quorum {
    /// Faults take down a minority at a time, or a majority: then no lock can be acquired, and exclusion
    /// still holds. A server that returns empty stays down until all leases have ended; or it may return
    /// earlier, and keys are deleted, too.
    pub fn start(rng: &mut Rng) -> Independent {
        let (members, variant) = match rng.one_in(2) {
            true => (3, ["3, remember", "3, forget"]),
            false => (5, ["5, remember", "5, forget"]),
        };
        let exclusive = !rng.one_in(4);
        let too_many = usize::from(rng.one_in(3));
        let limits = Self::limits(members);
        Self::with(Limits {
            variant: variant[usize::from(!exclusive)],
            away: members / 2 + too_many,
            absence: if exclusive { limits.ttl } else { millis(0) },
            exclusive,
            account: rng.one_in(2),
            ..limits
        })
    }

    pub fn limits(members: usize) -> Limits {
        Limits {
            servers: members,
            away: members / 2,
            needed: members.div_ceil(2),
            ..Standalone::that_remembers(millis(800))
        }
    }

    pub fn with(limits: Limits) -> Independent {
        let start = || Server::with(None, |_, _| open_to_all());
        let members: Vec<_> = thread::scope(|scope| {
            let members: Vec<_> = (0..limits.servers).map(|_| scope.spawn(start)).collect();
            let members = members.into_iter().map(|member| member.join().unwrap());
            members.collect()
        });
        Independent::new(members, limits)
    }
}
