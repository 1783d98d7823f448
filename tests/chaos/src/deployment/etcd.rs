//! A cluster of etcd with one member.

use crate::fault::Kind;
use lock_test_support::etcd::Etcd;
use lock_test_support::proxy::Proxy;
use lock_test_support::time::millis;

use super::{Deployment, Host, Limits, Standalone};

pub struct InEtcd {
    /// One for each worker process.
    links: Vec<Proxy>,
    server: Etcd,
    limits: Limits,
}

impl InEtcd {
    pub fn start() -> Self {
        Self::with(Self::limits())
    }

    /// Every server that returns has all that it granted: two holders are never excused.
    pub fn limits() -> Limits {
        let network = Kind::NETWORK.iter().copied();
        let network: Vec<_> = network.filter(|kind| *kind != Kind::MessagesLost).collect();
        Limits {
            variant: "one member",
            can: [
                &Kind::PROCESS[..],
                &[Kind::ServerKilled, Kind::ServerStopped],
                &network,
                &[Kind::ClockStepped],
            ]
            .concat(),
            // The server rounds leases up to seconds, and looks twice a second which have ended.
            ..Standalone::that_remembers(millis(1500))
        }
    }

    pub fn with(limits: Limits) -> Self {
        let server = Etcd::start();
        Self {
            links: (0..limits.processes)
                .map(|_| Proxy::to(server.port(0)))
                .collect(),
            server,
            limits,
        }
    }
}

impl Deployment for InEtcd {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn urls(&self, process: usize) -> String {
        format!("etcd://127.0.0.1:{}", self.links[process].port())
    }

    fn server(&mut self, _: usize) -> &mut dyn Host {
        &mut self.server
    }

    fn proxy(&self, process: usize, _: usize) -> Option<&Proxy> {
        self.links.get(process)
    }

    fn leftovers(&self) -> Vec<String> {
        self.server.leftovers()
    }
}
