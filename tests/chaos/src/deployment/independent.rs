//! Servers that know nothing of each other: a single one, or the members of a quorum.

use crate::source::Source;
use crate::worker_pool::Environment;
use lock_test_support::clocks::Clocks;
use lock_test_support::proxy::Proxy;
use lock_test_support::server::Server;
use lock_test_support::servers::Servers;

use super::links::Mesh;
use super::listener::Listener;
use super::{Deployment, Limits};

pub struct Independent {
    servers: Vec<Server>,
    links: Mesh,
    limits: Limits,
    /// The clocks of the first process.
    clocks: Option<Clocks>,
    _listener: Option<Listener>,
}

impl Independent {
    pub fn new(servers: Vec<Server>, limits: Limits) -> Self {
        Self {
            links: Mesh::to(&servers, limits.processes, Proxy::reading),
            _listener: limits.overheard.then(|| Listener::to(&servers[0])),
            servers,
            limits,
            clocks: None,
        }
    }

    /// Gives the first process these clocks.
    pub fn by(self, clocks: Clocks) -> Self {
        let clocks = Some(clocks);
        Self { clocks, ..self }
    }
}

impl Deployment for Independent {
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

    fn servers(&self) -> &dyn Servers {
        &self.servers
    }

    fn servers_mut(&mut self) -> &mut dyn Servers {
        &mut self.servers
    }

    /// Returns one of the members; all of them have the lock.
    fn serving(&self, key: u32) -> Option<usize> {
        Some(key as usize % self.servers.len())
    }

    fn proxy(&self, process: usize, server: usize) -> Option<&Proxy> {
        self.links.proxy(process, server)
    }

    fn witnessed(&self) -> Option<Source> {
        match &self.servers[..] {
            [server] => Some(Source::Redis(server.socket())),
            _ => None,
        }
    }
}
