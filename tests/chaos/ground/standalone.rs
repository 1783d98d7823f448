//! A standalone server.

use std::path::PathBuf;
use std::time::Duration;

use crate::crew::Environment;
use crate::fault::Kind;
use crate::support::clocks::Clocks;
use crate::support::dice::Dice;
use crate::support::proxy::Proxy;
use crate::support::server::Server;
use crate::support::time::millis;

use super::links::Mesh;
use super::listener::Listener;
use super::{Ground, KEYS, Links, Rules, SEATS, open_to_all};

pub struct Standalone {
    server: Server,
    links: Mesh,
    rules: Rules,
    /// The clocks of the first seat.
    clocks: Option<Clocks>,
    _listener: Option<Listener>,
}

impl Standalone {
    /// A server that returns empty does so when all leases have ended; or it may return earlier, and keys are
    /// deleted, too. In another variant its clock is set, so that it ends leases too soon or too late.
    pub fn start(dice: &mut Dice) -> Self {
        let ttl = millis(800);
        let remembers = Self::that_remembers(ttl);
        // When its counter of fencing tokens is lost, too, the server has only its clock to continue from.
        let keeps_tokens = |kind: &Kind| !matches!(kind, Kind::ServerForgot | Kind::Flushed);
        let remembers = Rules {
            account: dice.one_in(2),
            overheard: dice.one_in(3),
            ..remembers
        };
        Self::with(match dice.roll(8) {
            0 | 1 => Rules {
                variant: "forgets",
                absence: millis(0),
                exclusive: false,
                ..remembers
            },
            2 => Rules {
                variant: "is late",
                can: remembers.can.into_iter().filter(keeps_tokens).collect(),
                clocks: true,
                exclusive: false,
                ..remembers
            },
            _ => remembers,
        })
    }

    pub fn with(rules: Rules) -> Self {
        let options = open_to_all();
        let words: Vec<_> = options.iter().map(String::as_str).collect();
        let server = match rules.clocks {
            true => Server::by(Clocks::new(), &words),
            false => Server::with(None, |_, _| options),
        };
        Self {
            links: Mesh::to(std::slice::from_ref(&server), rules.seats),
            _listener: rules.overheard.then(|| Listener::to(&server)),
            server,
            rules,
            clocks: None,
        }
    }

    /// Gives the first seat these clocks.
    pub fn by(self, clocks: Clocks) -> Self {
        let clocks = Some(clocks);
        Self { clocks, ..self }
    }

    pub fn that_remembers(ttl: Duration) -> Rules {
        Rules {
            variant: "remembers",
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

impl Ground for Standalone {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn urls(&self, seat: usize) -> String {
        self.links.urls(seat)
    }

    fn environment(&self, seat: usize) -> Environment {
        let clocks = self.clocks.iter().filter(|_| seat == 0);
        clocks.flat_map(Clocks::environment).collect()
    }

    fn server(&mut self, _: usize) -> &mut Server {
        &mut self.server
    }

    fn proxy(&self, seat: usize, server: usize) -> Option<&Proxy> {
        Some(self.links.proxy(seat, server))
    }

    fn socket(&self) -> Option<PathBuf> {
        Some(self.server.socket())
    }

    fn leftovers(&self) -> Vec<String> {
        self.server.leftovers()
    }
}
