//! A cluster of etcd with one member or three.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::fault::Kind;
use lock_test_support::clocks::Clocks;
use lock_test_support::etcd::Etcd;
use lock_test_support::proxy::Proxy;
use lock_test_support::rng::Rng;
use lock_test_support::time::millis;

use super::{Deployment, Host, Limits, Standalone};

pub struct InEtcd {
    /// For each worker process, one to each member.
    links: Vec<Vec<Proxy>>,
    members: Vec<Member>,
    limits: Limits,
}

struct Member {
    cluster: Arc<Mutex<Etcd>>,
    number: usize,
}

impl InEtcd {
    pub fn start(rng: &mut Rng) -> Self {
        let one = Self::limits();
        Self::with(match rng.one_in(2) {
            true => Limits {
                variant: "three members",
                servers: 3,
                // Without the leader no lock is available until there is another.
                needed: 1,
                ..one
            },
            false => one,
        })
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
        let cluster = match limits.servers {
            1 => Etcd::start(),
            _ => Etcd::three(),
        };
        let numbers = 0..cluster.len();
        let ports: Vec<_> = numbers.clone().map(|number| cluster.port(number)).collect();
        let links = || ports.iter().map(|port| Proxy::to(*port)).collect();
        let links = (0..limits.processes).map(|_| links()).collect();
        let cluster = Arc::new(Mutex::new(cluster));
        let member = |number| Member {
            cluster: cluster.clone(),
            number,
        };
        Self {
            links,
            members: numbers.map(member).collect(),
            limits,
        }
    }
}

impl Deployment for InEtcd {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn urls(&self, process: usize) -> String {
        let links = self.links[process].iter();
        let hosts: Vec<_> = links
            .map(|link| format!("127.0.0.1:{}", link.port()))
            .collect();
        format!("etcd://{}", hosts.join(","))
    }

    fn server(&mut self, number: usize) -> &mut dyn Host {
        &mut self.members[number]
    }

    fn proxy(&self, process: usize, server: usize) -> Option<&Proxy> {
        self.links.get(process)?.get(server)
    }

    fn leftovers(&self) -> Vec<String> {
        self.members[0].cluster().leftovers()
    }
}

impl Member {
    fn cluster(&self) -> MutexGuard<'_, Etcd> {
        self.cluster.lock().unwrap()
    }
}

impl Host for Member {
    fn pause(&mut self) {
        self.cluster().pause(self.number);
    }

    fn resume(&mut self) {
        self.cluster().resume(self.number);
    }

    fn kill(&mut self) {
        self.cluster().kill(self.number);
    }

    fn forget(&mut self) {
        unreachable!("what it granted is on its disk");
    }

    fn restart(&mut self) {
        self.cluster().restart(self.number);
    }

    fn clear(&mut self) {
        self.cluster().clear();
    }

    fn clients(&self) -> Vec<String> {
        self.cluster().clients(self.number)
    }

    fn clocks(&self) -> &Clocks {
        unreachable!("it counts leases by the machine's clock");
    }

    fn socket(&self) -> PathBuf {
        unreachable!("it obeys no commands of Redis");
    }
}
