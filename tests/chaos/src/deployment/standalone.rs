//! A standalone server.

use std::time::Duration;

use crate::fault::Kind;
use crate::source::Source;
use crate::worker_pool::Environment;
use lock_test_support::clocks::Clocks;
use lock_test_support::proxy::Proxy;
use lock_test_support::rng::Rng;
use lock_test_support::server::Server;
use lock_test_support::time::millis;

use super::links::Mesh;
use super::listener::Listener;
use super::{Deployment, Host, KEYS, Limits, Links, PROCESSES, open_to_all};

pub struct Standalone {
    server: Server,
    links: Mesh,
    limits: Limits,
    /// The clocks of the first process.
    clocks: Option<Clocks>,
    _listener: Option<Listener>,
}

impl Standalone {
    /// A server that returns empty does so when all leases have ended; or it may return earlier, and keys are
    /// deleted, too. In another variant its clock is set, so that it ends leases too soon or too late.
    pub fn start(rng: &mut Rng) -> Self {
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

    pub fn with(limits: Limits) -> Self {
        let options = open_to_all();
        let words: Vec<_> = options.iter().map(String::as_str).collect();
        let server = match limits.clocks {
            true => Server::by(Clocks::correct(), &words),
            false => Server::with(None, |_, _| options),
        };
        Self {
            links: Mesh::to(std::slice::from_ref(&server), limits.processes),
            _listener: limits.overheard.then(|| Listener::to(&server)),
            server,
            limits,
            clocks: None,
        }
    }

    /// Gives the first process these clocks.
    pub fn by(self, clocks: Clocks) -> Self {
        let clocks = Some(clocks);
        Self { clocks, ..self }
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

impl Deployment for Standalone {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn urls(&self, process: usize) -> String {
        self.links.urls(process)
    }

    fn environment(&self, process: usize) -> Environment {
        let clocks = self.clocks.iter().filter(|_| process == 0);
        clocks.flat_map(Clocks::environment).collect()
    }

    fn server(&mut self, _: usize) -> &mut dyn Host {
        &mut self.server
    }

    fn proxy(&self, process: usize, server: usize) -> Option<&Proxy> {
        Some(self.links.proxy(process, server))
    }

    fn witnessed(&self) -> Option<Source> {
        Some(Source::Redis(self.server.socket()))
    }

    fn leftovers(&self) -> Vec<String> {
        self.server.leftovers()
    }
}
