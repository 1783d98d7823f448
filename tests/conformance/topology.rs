//! The topologies that the cases run on: their servers, and what sets them apart.

use std::future::{Future, ready};
use std::pin::Pin;
use std::time::Duration;

use lock_runtime::testing::{self, Locks};
use lock_runtime::{Config, LockManager};

use super::faults::{FORGETFUL, Fault, LASTING, Outcome};
use super::inputs::{self, Inputs};
use super::registry::{Case, REAL_TIME, Scope};
use lock_test_support::cluster::Cluster;
use lock_test_support::etcd::Etcd;
use lock_test_support::manager::connected;
use lock_test_support::mariadb::MariaDb;
use lock_test_support::postgres::Postgres;
use lock_test_support::sentinel::Sentinels;
use lock_test_support::server::Server;
use lock_test_support::servers::{Memory, Pooled, Servers, Shelves, Sqlite};
use lock_test_support::time::millis;
use lock_test_support::zookeeper::ZooKeeper;

type Connecting = Pin<Box<dyn Future<Output = LockManager> + Send>>;

pub struct Topology {
    pub servers: Box<dyn Servers>,
    pub connect: fn(Config) -> Connecting,
    /// Starts further servers for a case that makes them fail, if the topology outlives no failure by a
    /// failover.
    pub alone: Option<fn() -> Box<dyn Servers>>,
    /// What faults of the servers do to a lock.
    pub faults: &'static [(Fault, Outcome)],
    pub inputs: Inputs,
    /// `true` if other processes and foreign clients reach the locks.
    pub has_processes: bool,
    /// `true` if waiters of all processes share one queue.
    pub has_queue: bool,
    /// `true` if a waiter is told when it gets the lock, and need not ask.
    pub tells_waiters: bool,
    /// `true` if a process hears what others ask.
    pub hears_asks: bool,
    /// `true` if a process keeps locks between its calls, and hears when others want them.
    pub keeps: bool,
    /// `true` if the topology can count holders: for permits, and for downgrades.
    pub has_permits: bool,
    /// For how long a process that has died may keep its locks, beyond their ttl.
    pub outlasts: Duration,
    /// For how long a dead waiter may keep others from sharing the lock, beyond what a grant to it costs.
    pub keeps_out: Duration,
    /// The most servers that a client is given the addresses of.
    pub reached: usize,
    /// The longest key that the servers take, in bytes, with a prefix.
    pub longest_key: usize,
    /// `true` if time passes only while all tasks wait for it.
    pub is_virtual: bool,
    /// How much of the machine a case needs.
    pub weight: u32,
    /// Returns `true` if the case can differ here.
    pub plays: fn(&Case) -> bool,
}

/// The first waiter is called after 2 s, for 3 s, and the others look every second.
const OF_STORES: Duration = millis(4000);

/// PostgreSQL starts two processes for each manager of a case, and both compile all functions.
const OF_POSTGRES: u32 = 2;

impl Topology {
    /// Returns a topology with all abilities, whose servers fail in no case.
    fn of(servers: impl Servers + 'static, inputs: Inputs) -> Self {
        Self {
            servers: Box::new(servers),
            connect: |config| Box::pin(connected(config)),
            alone: None,
            faults: &[],
            inputs,
            has_processes: true,
            has_queue: true,
            tells_waiters: true,
            hears_asks: true,
            keeps: true,
            has_permits: true,
            outlasts: Duration::ZERO,
            keeps_out: Duration::ZERO,
            reached: usize::MAX,
            longest_key: usize::MAX,
            is_virtual: false,
            weight: 1,
            plays: by_topology,
        }
    }

    /// All else is played in virtual time.
    pub fn memory() -> Self {
        Self {
            plays: |case| REAL_TIME.contains(&case.name),
            has_processes: false,
            ..Self::of(Memory::start(), inputs::memory())
        }
    }

    /// Returns locks whose time is that of the runtime.
    pub fn memory_in_virtual_time() -> Self {
        Self {
            connect: |config| Box::pin(ready(Locks::with(config).manager())),
            is_virtual: true,
            ..Self::memory()
        }
    }

    /// Returns locks whose time is that of the runtime, and of which each request takes some.
    pub fn slow_memory_in_virtual_time() -> Self {
        Self {
            connect: |config| {
                let locks = Locks::with(config);
                locks.fail_with(testing::Fault::Slow(millis(1)));
                Box::pin(ready(locks.manager()))
            },
            ..Self::memory_in_virtual_time()
        }
    }

    /// What users bring: a server that compares and swaps, and pushes nothing.
    pub fn store() -> Self {
        Self {
            has_processes: false,
            tells_waiters: false,
            keeps: false,
            longest_key: 1000,
            plays: by_engine,
            ..Self::of(Shelves::start(), inputs::memory())
        }
    }

    pub fn mariadb() -> Self {
        Self {
            alone: Some(|| Box::new(MariaDb::start())),
            faults: LASTING,
            keeps_out: OF_STORES,
            longest_key: 1000,
            plays: by_engine,
            ..Self::of(MariaDb::start(), inputs::mariadb())
        }
    }

    /// A file, in which waiters look whether it is their turn.
    pub fn sqlite() -> Self {
        Self {
            tells_waiters: false,
            keeps: false,
            keeps_out: OF_STORES,
            longest_key: 1000,
            plays: by_engine,
            ..Self::of(Sqlite::start(), inputs::sqlite())
        }
    }

    pub fn standalone() -> Self {
        Self {
            plays: |_| true,
            alone: Some(|| Box::new(members(1))),
            faults: FORGETFUL,
            ..Self::of(members(1), inputs::standalone())
        }
    }

    pub fn sentinel() -> Self {
        Self::of(Sentinels::start(), inputs::sentinel())
    }

    pub fn cluster() -> Self {
        Self::of(Cluster::start(), inputs::cluster())
    }

    pub fn quorum_of_3() -> Self {
        Self {
            alone: Some(|| Box::new(members(3))),
            plays: by_engine,
            ..Self::quorum(3)
        }
    }

    pub fn quorum_of_5() -> Self {
        Self {
            alone: Some(|| Box::new(members(5))),
            ..Self::quorum(5)
        }
    }

    fn quorum(count: usize) -> Self {
        Self {
            faults: FORGETFUL,
            has_queue: false,
            tells_waiters: false,
            has_permits: false,
            ..Self::of(members(count), inputs::quorum())
        }
    }

    pub fn postgres() -> Self {
        Self {
            alone: Some(|| Box::new(Pooled::from(Postgres::start()))),
            faults: LASTING,
            weight: OF_POSTGRES,
            plays: by_engine,
            ..Self::of(Pooled::from(Postgres::start()), inputs::postgres())
        }
    }

    pub fn postgres_behind_pooler() -> Self {
        let pooled = Pooled::behind_pooler(Postgres::start());
        Self {
            tells_waiters: false,
            hears_asks: false,
            keeps: false,
            weight: OF_POSTGRES,
            ..Self::of(pooled, inputs::pooler())
        }
    }

    /// Starts one member, or as many as `LOCK_MEMBERS` says: 1 or 3.
    pub fn etcd() -> Self {
        let etcd = match std::env::var("LOCK_MEMBERS").as_deref() {
            Ok("3") => Etcd::three(),
            _ => Etcd::start(),
        };
        Self {
            alone: Some(|| Box::new(Etcd::start())),
            faults: LASTING,
            outlasts: millis(2000),
            reached: 1,
            plays: by_engine,
            ..Self::of(etcd, inputs::etcd())
        }
    }

    pub fn zookeeper(servers: usize) -> Self {
        let alone: fn() -> Box<dyn Servers> = || Box::new(warm(1));
        Self {
            alone: (servers == 1).then_some(alone),
            faults: LASTING,
            outlasts: millis(2000),
            reached: 1,
            plays: if servers == 1 { by_engine } else { by_topology },
            ..Self::of(warm(servers), inputs::zookeeper())
        }
    }
}

fn by_topology(case: &Case) -> bool {
    case.scope == Scope::Topology
}

/// Of the first topology of an engine.
fn by_engine(case: &Case) -> bool {
    case.scope != Scope::Caller
}

fn members(count: usize) -> Vec<Server> {
    (0..count).map(|_| Server::start()).collect()
}

fn warm(servers: usize) -> ZooKeeper {
    let mut zookeeper = ZooKeeper::with(servers, "");
    zookeeper.warm_up();
    zookeeper
}
