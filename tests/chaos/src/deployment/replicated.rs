//! Servers of which a majority has every lock: etcd and ZooKeeper.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::fault::Kind;
use lock_test_support::proxy::Proxy;
use lock_test_support::rng::Rng;

use super::{Deployment, Host, Limits, Standalone};

/// One server, or several that elect a leader.
pub trait Servers: Send + 'static {
    /// The scheme of their URLs.
    const SCHEME: &str;
    /// The ttl of locks in random schedules.
    const TTL: Duration;
    /// What else may happen to them.
    const DISTURBANCES: &[Kind] = &[];

    fn start(servers: usize) -> Self;
    fn port(&self, number: usize) -> u16;
    fn pause(&mut self, number: usize);
    fn resume(&mut self, number: usize);
    fn kill(&mut self, number: usize);
    fn restart(&mut self, number: usize);

    /// Parts a server from the others, which clients still reach.
    fn part(&self, number: usize);

    fn rejoin(&self);

    fn disturb(&self, _kind: Kind) {}

    /// Deletes all locks.
    fn clear(&self);

    /// Returns the connected clients of a server, as [`Host::clients`] does, if they can be known.
    fn clients(&self, _number: usize) -> Vec<String> {
        Vec::new()
    }

    /// Returns the leader.
    fn serving(&self) -> Option<usize> {
        Some(0)
    }

    fn leftovers(&self) -> Vec<String>;
}

pub struct Replicated<S> {
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
                &[Kind::ClockStepped],
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
        self.members[0].servers().serving()
    }

    fn proxy(&self, process: usize, server: usize) -> Option<&Proxy> {
        self.links.get(process)?.get(server)
    }

    fn part(&mut self, number: usize) {
        self.members[number].servers().part(number);
    }

    fn rejoin(&mut self) {
        self.members[0].servers().rejoin();
    }

    fn disturb(&mut self, kind: Kind) {
        self.members[0].servers().disturb(kind);
    }

    fn leftovers(&self) -> Vec<String> {
        self.members[0].servers().leftovers()
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
        self.servers().restart(self.number);
    }

    fn clear(&mut self) {
        self.servers().clear();
    }

    fn clients(&self) -> Vec<String> {
        self.servers().clients(self.number)
    }
}
