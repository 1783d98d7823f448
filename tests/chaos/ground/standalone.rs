//! One server.

use crate::fault::Kind;
use crate::support::dice::Dice;
use crate::support::proxy::Proxy;
use crate::support::server::Server;
use crate::support::time::millis;

use super::links::Mesh;
use super::{Ground, KEYS, Links, Rules, SEATS, durable};

pub struct Standalone {
    server: Server,
    links: Mesh,
    rules: Rules,
}

impl Standalone {
    /// One that comes back empty does so when all leases have ended, or before; then keys are deleted,
    /// too.
    pub fn start(dice: &mut Dice) -> Self {
        let ttl = millis(800);
        let exclusive = !dice.one_in(4);
        let server = Server::with(None, |_, _| durable());
        Self {
            links: Mesh::to(std::slice::from_ref(&server)),
            server,
            rules: Rules {
                variant: match exclusive {
                    true => "remembers",
                    false => "forgets",
                },
                ttl,
                keys: KEYS,
                seats: SEATS,
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
                ]
                .concat(),
                away: 1,
                needed: 1,
                absence: if exclusive { ttl } else { millis(0) },
                stop: millis(2000),
                exclusive,
            },
        }
    }
}

impl Ground for Standalone {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn urls(&self, seat: usize) -> String {
        self.links.urls(seat)
    }

    fn server(&mut self, _: usize) -> &mut Server {
        &mut self.server
    }

    fn proxy(&self, seat: usize, server: usize) -> Option<&Proxy> {
        Some(self.links.proxy(seat, server))
    }

    fn leftovers(&self) -> Vec<String> {
        self.server.leftovers()
    }
}
