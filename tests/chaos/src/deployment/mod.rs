//! The deployments that schedules run on, and the faults that each permits without exceeding its promises.

mod cluster;
mod failover;
mod independent;
mod links;
mod listener;
mod local;
mod mariadb;
mod one_node;
mod postgres;
mod quorum;
mod replicated;
mod sentinel;
mod standalone;

use std::time::Duration;

use crate::fault::Kind;
use crate::source::Source;
use crate::worker_pool::Environment;
use lock_test_support::etcd::Etcd;
use lock_test_support::proxy::Proxy;
use lock_test_support::rng::Rng;
use lock_test_support::servers::Servers;
use lock_test_support::zookeeper::ZooKeeper;
pub use mariadb::InMariaDb;
pub use one_node::OneNode;
pub use postgres::{Beside, InPostgres};
pub use quorum::Quorum;
use replicated::Replicated;
pub use replicated::ensemble;
pub use standalone::Standalone;

pub type InEtcd = Replicated<Etcd>;
pub type InZooKeeper = Replicated<ZooKeeper>;

pub const KEYS: u32 = 3;
pub const PROCESSES: usize = 3;

/// Returns the name of a lock on the server.
pub fn name(key: u32) -> String {
    format!("lock:door:{key}")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topology {
    Memory,
    Standalone,
    Sentinel,
    Cluster,
    Quorum,
    Postgres,
    Etcd,
    ZooKeeper,
    MariaDb,
    Sqlite,
}

impl Topology {
    pub const ALL: [Self; 10] = [
        Self::Memory,
        Self::Standalone,
        Self::Sentinel,
        Self::Cluster,
        Self::Quorum,
        Self::Postgres,
        Self::Etcd,
        Self::ZooKeeper,
        Self::MariaDb,
        Self::Sqlite,
    ];

    /// Those of a campaign that names none.
    pub const OF_REDIS: [Self; 5] = [
        Self::Memory,
        Self::Standalone,
        Self::Sentinel,
        Self::Cluster,
        Self::Quorum,
    ];

    /// Returns `true` if a process may keep a lock between its calls there.
    pub fn keeps(self) -> bool {
        self != Self::Sqlite
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Standalone => "standalone",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
            Self::Quorum => "quorum",
            Self::Postgres => "postgres",
            Self::Etcd => "etcd",
            Self::ZooKeeper => "zookeeper",
            Self::MariaDb => "mariadb",
            Self::Sqlite => "sqlite",
        }
    }

    /// Starts a deployment in a variant that the seed selects.
    pub fn start(self, seed: u64) -> Box<dyn Deployment> {
        let mut rng = Rng::with(seed.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        rng.below(2);
        match self {
            Self::Memory => Box::new(local::Local::memory()),
            Self::Standalone => Box::new(Standalone::start(&mut rng)),
            Self::Sentinel => Box::new(sentinel::Sentinel::start(&mut rng)),
            Self::Cluster => Box::new(cluster::InCluster::start(&mut rng)),
            Self::Quorum => Box::new(Quorum::start(&mut rng)),
            Self::Postgres => Box::new(InPostgres::start(&mut rng)),
            Self::Etcd => Box::new(InEtcd::start(&mut rng)),
            Self::ZooKeeper => Box::new(InZooKeeper::start(&mut rng)),
            Self::MariaDb => Box::new(InMariaDb::start(&mut rng)),
            Self::Sqlite => Box::new(local::Local::file()),
        }
    }
}

/// Returns `true` if something may have been deleted.
pub type Deletion = Box<dyn FnOnce() -> bool + Send>;

pub trait Deployment: Send {
    fn limits(&self) -> &Limits;

    /// Returns the URL that the workers of a process connect to, or several, separated by spaces.
    fn urls(&self, process: usize) -> String;

    /// Returns the environment variables of a process.
    fn environment(&self, _seat: usize) -> Environment {
        Vec::new()
    }

    fn servers(&self) -> &dyn Servers;

    fn servers_mut(&mut self) -> &mut dyn Servers;

    /// Returns the server that serves the lock, if there is one.
    fn serving(&self, _key: u32) -> Option<usize> {
        Some(0)
    }

    /// Returns the proxy between a process and a server.
    fn proxy(&self, process: usize, server: usize) -> Option<&Proxy>;

    /// Returns `true` if a server may get a fault now.
    fn may_begin(&self) -> bool {
        true
    }

    /// Is called when a server has just been killed.
    fn killed(&mut self, _number: usize) {}

    /// Returns `true` if a server that was killed long enough ago may return empty.
    fn may_return(&self, _number: usize) -> bool {
        true
    }

    /// Returns `true` if a server that does not know all locks may replace the silent one.
    fn forgets_by(&self, _kind: Kind, _server: usize) -> bool {
        false
    }

    /// Begins a failover of the lock's server. Returns `true` if it began.
    fn fail_over(&mut self, _key: u32) -> bool {
        false
    }

    /// Begins to move the lock to another server; until the move ends it can be on either.
    fn begin_move(&mut self, _key: u32) -> Option<Move> {
        None
    }

    /// Ends the move. Returns `true` if that succeeded.
    fn end_move(&mut self, _move: Move) -> bool {
        true
    }

    /// Returns how another client deletes what is stored of the lock, unless that takes a Redis command.
    fn deletion(&self, _kind: Kind, _key: u32, _server: usize) -> Option<Deletion> {
        None
    }

    /// Begins a fault of a database or of what is in front of it.
    fn disturb(&mut self, kind: Kind) {
        unreachable!("{kind:?} is for databases");
    }

    /// Ends such a fault.
    fn calm(&mut self, _kind: Kind) {}

    /// Returns `true` if the servers have recovered from all faults.
    fn is_settled(&self) -> bool {
        true
    }

    /// Returns how to look at the locks, if a single server has all of them.
    fn witnessed(&self) -> Option<Source> {
        None
    }
}

/// The options of a server that keeps everything it acknowledged, and that obeys `DEBUG SLEEP`.
fn durable() -> Vec<String> {
    let options = [
        ["--appendonly", "yes"],
        ["--appendfsync", "always"],
        ["--enable-debug-command", "yes"],
    ];
    options.concat().into_iter().map(str::to_owned).collect()
}

/// The options of a standalone server or a member of a quorum.
fn open_to_all() -> Vec<String> {
    let (user, password) = ACCOUNT;
    let mut options = durable();
    let account = format!("--user {user} on >{password} ~* &* +@all");
    options.extend(account.split(' ').map(str::to_owned));
    options
}

/// The network connections that get faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    Nobodys,
    /// Each connection between one worker and one server.
    OfWorkers,
    /// The network of a server, for all clients.
    OfServers,
}

/// The move of a slot from one server to another.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    pub slot: u16,
    pub from: usize,
    pub to: usize,
}

#[derive(Clone, Debug)]
pub struct Limits {
    pub variant: &'static str,
    pub ttl: Duration,
    pub keys: u32,
    /// The number of worker processes, and the number of lock managers of each.
    pub processes: usize,
    pub managers: u32,
    /// The number of replicas that must confirm a lock.
    pub replicas: u32,
    pub servers: usize,
    /// `true` if locks may move from one server to another.
    pub changes: bool,
    pub links: Links,
    pub can: Vec<Kind>,
    /// `true` if the clocks of servers are set.
    pub clocks: bool,
    /// The largest number of servers that may be down at a time.
    pub away: usize,
    /// The number of servers whose loss makes locks unavailable.
    pub needed: usize,
    /// The shortest time that a server stays down if it returns empty, …
    pub absence: Duration,
    /// … and the longest time that a server is stopped.
    pub stop: Duration,
    /// `true` if two calls never hold one lock, whatever the faults.
    pub exclusive: bool,
    /// `true` if workers have an ACL user of their own, not the default one.
    pub account: bool,
    /// `true` if another client receives all messages.
    pub overheard: bool,
}

/// The ACL user of the workers, if they have one of their own, and its password.
const ACCOUNT: (&str, &str) = ("worker", "secret");

impl Limits {
    pub fn credentials(&self) -> Option<(String, String)> {
        let (user, password) = ACCOUNT;
        self.account.then(|| (user.to_owned(), password.to_owned()))
    }

    /// Returns the ACL user of the workers.
    pub fn user(&self) -> &'static str {
        if self.account { ACCOUNT.0 } else { "default" }
    }
}
