//! ZooKeeper: one server, or an ensemble of three.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fault::Kind;
use lock_test_support::clocks::Clocks;
use lock_test_support::proxy::Proxy;
use lock_test_support::rng::Rng;
use lock_test_support::time::millis;
use lock_test_support::zookeeper::ZooKeeper;

use super::{Deployment, Host, Limits, Standalone};

/// How many ticks of 100 ms the servers of an ensemble wait for one that is silent.
const SYNC_LIMIT: u32 = 10;

pub struct InZooKeeper {
    /// For each worker process one to each server.
    links: Vec<Vec<Proxy>>,
    members: Vec<Member>,
    limits: Limits,
}

/// One server of an ensemble.
struct Member {
    ensemble: Arc<Mutex<ZooKeeper>>,
    number: usize,
}

impl InZooKeeper {
    pub fn start(rng: &mut Rng) -> Self {
        let servers = if rng.one_in(2) { 1 } else { 3 };
        Self::with(Self::limits(servers), SYNC_LIMIT)
    }

    /// A majority has flushed what is granted: two holders are never excused. Whichever server is lost may lead.
    pub fn limits(servers: usize) -> Limits {
        let network = Kind::NETWORK.iter().copied();
        let network: Vec<_> = network.filter(|kind| *kind != Kind::MessagesLost).collect();
        Limits {
            variant: if servers == 1 {
                "one server"
            } else {
                "three servers"
            },
            servers,
            can: [
                &Kind::PROCESS[..],
                &[Kind::ServerKilled, Kind::ServerStopped],
                &network,
                &[Kind::ClockStepped],
            ]
            .concat(),
            ..Standalone::that_remembers(millis(800))
        }
    }

    pub fn with(limits: Limits, sync_limit: u32) -> Self {
        let options = format!("syncLimit={sync_limit}");
        let mut ensemble = ZooKeeper::by(limits.servers, millis(100), &options);
        ensemble.warm_up();
        let links = || (0..limits.servers).map(|server| ensemble.proxy(server));
        let links = (0..limits.processes).map(|_| links().collect()).collect();
        let ensemble = Arc::new(Mutex::new(ensemble));
        let member = |number| Member {
            ensemble: ensemble.clone(),
            number,
        };
        Self {
            links,
            members: (0..limits.servers).map(member).collect(),
            limits,
        }
    }
}

impl Deployment for InZooKeeper {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn urls(&self, process: usize) -> String {
        let hosts = self.links[process].iter();
        let hosts: Vec<_> = hosts
            .map(|link| format!("127.0.0.1:{}", link.port()))
            .collect();
        format!("zookeeper://{}", hosts.join(","))
    }

    fn server(&mut self, number: usize) -> &mut dyn Host {
        &mut self.members[number]
    }

    /// Returns the leader.
    fn serving(&self, _: u32) -> Option<usize> {
        self.members[0].ensemble().leader_now()
    }

    fn proxy(&self, process: usize, server: usize) -> Option<&Proxy> {
        self.links.get(process)?.get(server)
    }

    fn leftovers(&self) -> Vec<String> {
        self.members[0].ensemble().claims()
    }
}

impl Member {
    fn ensemble(&self) -> MutexGuard<'_, ZooKeeper> {
        self.ensemble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host for Member {
    fn pause(&mut self) {
        self.ensemble().pause(self.number);
    }

    fn resume(&mut self) {
        self.ensemble().resume(self.number);
    }

    fn kill(&mut self) {
        self.ensemble().kill(self.number);
    }

    fn forget(&mut self) {
        unreachable!("what it granted is on its disk");
    }

    fn restart(&mut self) {
        self.ensemble().restart(self.number);
    }

    fn clear(&mut self) {
        self.ensemble().leave_claims();
    }

    fn clients(&self) -> Vec<String> {
        Vec::new()
    }

    fn clocks(&self) -> &Clocks {
        unreachable!("its clock is the machine's");
    }

    fn socket(&self) -> PathBuf {
        unreachable!("it obeys no commands of Redis");
    }
}
