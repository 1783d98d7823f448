//! Servers of which a majority has every lock: etcd and ZooKeeper.

use std::io::{ErrorKind, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::fault::Kind;
use lock_test_support::etcd::Etcd;
use lock_test_support::etcd_gateway;
use lock_test_support::members;
use lock_test_support::proxy::Proxy;
use lock_test_support::rng::Rng;
use lock_test_support::stale_leader::StaleLeader;
use lock_test_support::time::millis;
use lock_test_support::zookeeper::ZooKeeper;
use lock_test_support::zookeeper::client::Client;

use super::{Deletion, Deployment, Host, Limits, Standalone, name};

/// One server, or three.
pub trait Servers: members::Replicated {
    /// The ttl of locks in random schedules.
    const TTL: Duration;
    /// What else may happen to them.
    const DISTURBANCES: &[Kind] = &[];

    fn start(servers: usize) -> Self;

    fn disturb(&self, _kind: Kind) {}

    /// Deletes all claims on a lock, as a client of the server at that port.
    fn delete_claims(port: u16, lock: &str) -> Result<()>;

    /// Deletes the claim of the first waiter behind an exclusive holder. Returns `false` if there is none.
    fn delete_place(port: u16, lock: &str) -> Result<bool>;

    /// Returns the server at which a fault is aimed.
    fn target(&self) -> Option<usize>;
}

impl Servers for Etcd {
    // It rounds leases up to seconds, and looks twice a second which have ended.
    const TTL: Duration = millis(1500);
    const DISTURBANCES: &[Kind] = &[Kind::HistoryCompacted, Kind::LeasesRevoked];

    fn start(servers: usize) -> Self {
        match servers {
            1 => Self::start(),
            _ => Self::three_behind_proxies(),
        }
    }

    fn disturb(&self, _: Kind) {
        // Without a majority it changes nothing.
        self.compact();
    }

    fn delete_claims(port: u16, lock: &str) -> Result<()> {
        etcd_gateway::delete_line(port, lock)
    }

    fn delete_place(port: u16, lock: &str) -> Result<bool> {
        etcd_gateway::delete_place(port, lock)
    }

    fn target(&self) -> Option<usize> {
        self.leader_now()
    }
}

impl Servers for ZooKeeper {
    const TTL: Duration = millis(800);

    fn start(servers: usize) -> Self {
        ensemble(servers, 10)
    }

    fn delete_claims(port: u16, lock: &str) -> Result<()> {
        let mut client = Client::connect(port)?;
        // Those behind others first, as `deleteall` may do.
        let mut claims = client.line(&path(lock));
        claims.reverse();
        client.delete_together(&claims);
        Ok(())
    }

    fn delete_place(port: u16, lock: &str) -> Result<bool> {
        Ok(Client::connect(port)?.delete_place(&path(lock)))
    }

    fn target(&self) -> Option<usize> {
        self.leader_now()
    }
}

/// Returns the path of a lock in ZooKeeper.
fn path(lock: &str) -> String {
    format!("/{}", lock.replacen(':', "/", 1))
}

/// Starts servers of ZooKeeper that wait that number of ticks of 100 ms for one that is silent.
pub fn ensemble(servers: usize, sync_limit: u32) -> ZooKeeper {
    let options = format!("syncLimit={sync_limit}");
    let mut ensemble = ZooKeeper::behind_proxies(servers, millis(100), &options);
    ensemble.warm_up();
    ensemble
}

/// How often a claim is looked for that may be deleted.
const TRIES: usize = 20;

pub struct Replicated<S> {
    /// Ends before the servers do.
    stale: Option<StaleLeader>,
    /// For each worker process, one to each server.
    links: Vec<Vec<Proxy>>,
    members: Vec<Member<S>>,
    limits: Limits,
}

struct Member<S> {
    servers: Arc<Mutex<S>>,
    number: usize,
}

impl<S: Servers> Replicated<S> {
    pub fn start(rng: &mut Rng) -> Self {
        let limits = Self::limits(if rng.one_in(2) { 1 } else { 3 });
        let limits = match rng.one_in(4) {
            true => Limits {
                variant: "another client deletes locks",
                can: [&limits.can[..], &[Kind::KeyDeleted]].concat(),
                exclusive: false,
                ..limits
            },
            false => limits,
        };
        Self::with(S::start(limits.servers), limits)
    }

    /// A majority has flushed what is granted: two holders are never excused. Whichever server is lost may lead, and
    /// no lock is available until another one does.
    pub fn limits(servers: usize) -> Limits {
        let network = Kind::NETWORK.iter().copied();
        let network: Vec<_> = network.filter(|kind| *kind != Kind::MessagesLost).collect();
        let (variant, parted) = match servers {
            1 => ("one server", None),
            _ => ("three servers", Some(Kind::ServerParted)),
        };
        Limits {
            variant,
            servers,
            can: [
                &Kind::PROCESS[..],
                &[Kind::ServerKilled, Kind::ServerStopped],
                &network,
                &[Kind::ClockStepped, Kind::PlaceDeleted],
                parted.as_slice(),
                S::DISTURBANCES,
            ]
            .concat(),
            ..Standalone::that_remembers(S::TTL)
        }
    }

    pub fn with(servers: S, limits: Limits) -> Self {
        let numbers = 0..limits.servers;
        let links = || {
            numbers
                .clone()
                .map(|number| Proxy::to(servers.port(number)))
        };
        let links = (0..limits.processes).map(|_| links().collect()).collect();
        let servers = Arc::new(Mutex::new(servers));
        let member = |number| Member {
            servers: servers.clone(),
            number,
        };
        Self {
            stale: None,
            links,
            members: numbers.map(member).collect(),
            limits,
        }
    }
}

impl<S: Servers> Deployment for Replicated<S> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn urls(&self, process: usize) -> String {
        let hosts = self.links[process].iter();
        let hosts: Vec<_> = hosts
            .map(|link| format!("127.0.0.1:{}", link.port()))
            .collect();
        format!("{}://{}", S::SCHEME, hosts.join(","))
    }

    fn server(&mut self, number: usize) -> &mut dyn Host {
        &mut self.members[number]
    }

    fn serving(&self, _: u32) -> Option<usize> {
        self.members[0].servers().target()
    }

    fn proxy(&self, process: usize, server: usize) -> Option<&Proxy> {
        self.links.get(process)?.get(server)
    }

    fn part(&mut self, number: usize) {
        self.members[number].servers().part_from_others(number);
    }

    fn rejoin(&mut self) {
        self.members[0].servers().rejoin();
    }

    fn deletion(&self, kind: Kind, key: u32, server: usize) -> Option<Deletion> {
        let (port, lock) = (self.members[server].servers().port(server), name(key));
        match kind {
            Kind::KeyDeleted => Some(Box::new(move || match S::delete_claims(port, &lock) {
                Err(error) => error.kind() != ErrorKind::ConnectionRefused,
                Ok(()) => true,
            })),
            Kind::PlaceDeleted => Some(Box::new(move || {
                let mut tries = (0..TRIES).map(|_| S::delete_place(port, &lock));
                tries.any(|deleted| deleted.unwrap_or(true))
            })),
            _ => None,
        }
    }

    fn disturb(&mut self, kind: Kind) {
        let servers = self.members[0].servers();
        match kind {
            Kind::LeasesRevoked => {
                let start = || StaleLeader::start(servers.port(0));
                self.stale.get_or_insert_with(start);
            }
            kind => servers.disturb(kind),
        }
    }

    fn leftovers(&self) -> Vec<String> {
        self.members[0].servers().all_claims()
    }
}

impl<S> Member<S> {
    fn servers(&self) -> MutexGuard<'_, S> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Servers> Host for Member<S> {
    fn pause(&mut self) {
        self.servers().pause(self.number);
    }

    fn resume(&mut self) {
        self.servers().resume(self.number);
    }

    fn kill(&mut self) {
        self.servers().kill(self.number);
    }

    fn restart(&mut self) {
        self.servers().start_again(self.number);
    }

    fn clear(&mut self) {
        self.servers().delete_all_claims();
    }

    fn clients(&self) -> Vec<String> {
        self.servers().clients(self.number)
    }
}
