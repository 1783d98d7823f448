//! Three or five independent servers.

use std::thread;

use crate::fault::Kind;
use crate::support::dice::Dice;
use crate::support::proxy::Proxy;
use crate::support::server::Server;
use crate::support::time::millis;

use super::links::Mesh;
use super::{Ground, KEYS, Links, Rules, SEATS, open_to_all};

pub struct Quorum {
    members: Vec<Server>,
    links: Mesh,
    rules: Rules,
}

impl Quorum {
    /// Faults take down a minority at a time, or a majority: then no lock can be acquired, and exclusion
    /// still holds. A server that returns empty stays down until all leases have ended; or it may return
    /// earlier, and keys are deleted, too.
    pub fn start(dice: &mut Dice) -> Self {
        let ttl = millis(800);
        let (members, variant) = match dice.one_in(2) {
            true => (3, ["3, remember", "3, forget"]),
            false => (5, ["5, remember", "5, forget"]),
        };
        let exclusive = !dice.one_in(4);
        let too_many = usize::from(dice.one_in(3));
        let start = || Server::with(None, |_, _| open_to_all());
        let members: Vec<_> = thread::scope(|scope| {
            let members: Vec<_> = (0..members).map(|_| scope.spawn(start)).collect();
            let members = members.into_iter().map(|member| member.join().unwrap());
            members.collect()
        });
        let rules = Rules {
            variant: variant[usize::from(!exclusive)],
            ttl,
            keys: KEYS,
            seats: SEATS,
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
            account: dice.one_in(2),
            overheard: false,
        };
        Self {
            links: Mesh::to(&members, SEATS),
            members,
            rules,
        }
    }
}

impl Ground for Quorum {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn urls(&self, seat: usize) -> String {
        self.links.urls(seat)
    }

    fn server(&mut self, number: usize) -> &mut Server {
        &mut self.members[number]
    }

    /// Returns one of the members; all of them have the lock.
    fn serving(&self, key: u32) -> Option<usize> {
        Some(key as usize % self.members.len())
    }

    fn proxy(&self, seat: usize, server: usize) -> Option<&Proxy> {
        Some(self.links.proxy(seat, server))
    }

    fn leftovers(&self) -> Vec<String> {
        self.members.iter().flat_map(Server::leftovers).collect()
    }
}
