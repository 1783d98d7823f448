//! Servers of which a majority has every lock: etcd and ZooKeeper.

use std::io::{ErrorKind, Result};
use std::time::Duration;

use crate::fault::Kind;
use lock_test_support::etcd::Etcd;
use lock_test_support::etcd_gateway;
use lock_test_support::proxy::Proxy;
use lock_test_support::rng::Rng;
use lock_test_support::servers::Servers;
use lock_test_support::stale_leader::StaleLeader;
use lock_test_support::time::millis;
use lock_test_support::zookeeper::client::Client;
use lock_test_support::zookeeper::{ZooKeeper, path_of};

use super::links::Mesh;
use super::{Deletion, Deployment, Limits, Standalone, name};

/// One server, or three.
pub trait Members: Servers + 'static {
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

impl Members for Etcd {
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

impl Members for ZooKeeper {
    const TTL: Duration = millis(800);

    fn start(servers: usize) -> Self {
        ensemble(servers, 10)
    }

    fn delete_claims(port: u16, lock: &str) -> Result<()> {
        let mut client = Client::connect(port)?;
        // Those behind others first, as `deleteall` may do.
        let mut claims = client.line(&path_of(lock));
        claims.reverse();
        client.delete_together(&claims);
        Ok(())
    }

    fn delete_place(port: u16, lock: &str) -> Result<bool> {
        Ok(Client::connect(port)?.delete_place(&path_of(lock)))
    }

    fn target(&self) -> Option<usize> {
        self.leader_now()
    }
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
    links: Mesh,
    servers: S,
    limits: Limits,
}

impl<S: Members> Replicated<S> {
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

    /// A majority has flushed what is granted: two holders are never excused. Whichever server is lost may
    /// lead, and no lock is available until another one does.
    pub fn limits(servers: usize) -> Limits {
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
                &Kind::without_messages(),
                &[Kind::ClockStepped, Kind::PlaceDeleted],
                parted.as_slice(),
                S::DISTURBANCES,
            ]
            .concat(),
            ..Standalone::that_remembers(S::TTL)
        }
    }

    pub fn with(servers: S, limits: Limits) -> Self {
        Self {
            stale: None,
            links: Mesh::to(&servers, limits.processes, Proxy::to),
            servers,
            limits,
        }
    }
}

impl<S: Members> Deployment for Replicated<S> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn urls(&self, process: usize) -> String {
        self.links.urls(process)
    }

    fn servers(&self) -> &dyn Servers {
        &self.servers
    }

    fn servers_mut(&mut self) -> &mut dyn Servers {
        &mut self.servers
    }

    fn serving(&self, _: u32) -> Option<usize> {
        self.servers.target()
    }

    fn proxy(&self, process: usize, server: usize) -> Option<&Proxy> {
        self.links.proxy(process, server)
    }

    fn deletion(&self, kind: Kind, key: u32, server: usize) -> Option<Deletion> {
        let (port, lock) = (self.servers.ports()[server], name(key));
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
        match kind {
            Kind::LeasesRevoked => {
                let start = || StaleLeader::start(self.servers.ports()[0]);
                self.stale.get_or_insert_with(start);
            }
            kind => self.servers.disturb(kind),
        }
    }
}
