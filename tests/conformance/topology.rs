//! The topologies that the cases run on.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use lock_test_support::cluster::Cluster;
use lock_test_support::etcd::Etcd;
use lock_test_support::pgbouncer::PgBouncer;
use lock_test_support::postgres::{Postgres, url_at};
use lock_test_support::proxy::Proxy;
use lock_test_support::sentinel::Sentinels;
use lock_test_support::server::Server;
use lock_test_support::time::millis;
use lock_test_support::zookeeper::ZooKeeper;
use lock_test_support::zookeeper::client::Kind;

pub trait Topology: Send + Sync {
    /// Returns the URLs that a service would use.
    fn urls(&self) -> Vec<String>;

    /// Returns proxies in front of all servers, and the URLs of clients that reach the servers through these alone.
    /// There are none if clients find other ways.
    fn network(&self) -> (Vec<Proxy>, Vec<String>) {
        Default::default()
    }

    /// Returns `true` if other processes reach the locks.
    fn has_processes(&self) -> bool {
        true
    }

    /// Returns for how long a process that has died may keep its locks, beyond their ttl.
    fn outlasts(&self) -> Duration {
        Duration::ZERO
    }

    /// Deletes the lock of this name, or overwrites it with `thief`, as a foreign client would. Returns
    /// `false` if the topology has no other clients.
    fn tamper(&self, name: &str, thief: Option<&str>) -> bool;

    /// Returns `true` if waiters of all processes share one queue.
    fn has_queue(&self) -> bool {
        true
    }

    /// Returns `true` if a waiter is told when it gets the lock, and need not ask.
    fn tells_waiters(&self) -> bool {
        self.has_queue()
    }

    /// Returns `true` if the topology can count holders: for permits, and for downgrades.
    fn has_permits(&self) -> bool {
        true
    }

    /// Returns how much of the machine a case needs.
    fn weight(&self) -> u32 {
        1
    }
}

fn in_front_of(
    ports: impl IntoIterator<Item = u16>,
    url: fn(u16) -> String,
) -> (Vec<Proxy>, Vec<String>) {
    let proxies: Vec<_> = ports.into_iter().map(Proxy::to).collect();
    let urls = proxies.iter().map(|proxy| url(proxy.port())).collect();
    (proxies, urls)
}

fn redis(port: u16) -> String {
    format!("redis://127.0.0.1:{port}/")
}

/// PostgreSQL starts two processes for each manager of a case, and both compile all functions.
const OF_POSTGRES: u32 = 4;

pub struct Memory {
    url: String,
}

impl Memory {
    pub fn start() -> Self {
        static STORES: AtomicUsize = AtomicUsize::new(0);
        let url = format!("memory://conformance-{}", STORES.fetch_add(1, Relaxed));
        Self { url }
    }
}

impl Topology for Memory {
    fn urls(&self) -> Vec<String> {
        vec![self.url.clone()]
    }

    fn has_processes(&self) -> bool {
        false
    }

    fn tamper(&self, _: &str, _: Option<&str>) -> bool {
        false
    }
}

pub struct Standalone(Server);

impl Standalone {
    pub fn start() -> Self {
        Self(Server::start())
    }
}

impl Topology for Standalone {
    fn urls(&self) -> Vec<String> {
        vec![self.0.url()]
    }

    fn network(&self) -> (Vec<Proxy>, Vec<String>) {
        in_front_of([self.0.port()], redis)
    }

    fn tamper(&self, name: &str, thief: Option<&str>) -> bool {
        tamper(&self.0, name, thief);
        true
    }
}

pub struct Sentinel(Sentinels);

impl Sentinel {
    pub fn start() -> Self {
        Self(Sentinels::start())
    }
}

impl Topology for Sentinel {
    fn urls(&self) -> Vec<String> {
        vec![self.0.url()]
    }

    fn tamper(&self, name: &str, thief: Option<&str>) -> bool {
        tamper(self.0.server(self.0.master()), name, thief);
        true
    }
}

pub struct InCluster(Cluster);

impl InCluster {
    pub fn start() -> Self {
        Self(Cluster::start())
    }
}

impl Topology for InCluster {
    fn urls(&self) -> Vec<String> {
        vec![self.0.url()]
    }

    fn tamper(&self, name: &str, thief: Option<&str>) -> bool {
        let master = self
            .0
            .master_of(self.0.slot(name))
            .expect("the slot has a master");
        tamper(self.0.node(master), name, thief);
        true
    }
}

pub struct Quorum(Vec<Server>);

impl Quorum {
    pub fn of(members: usize) -> Self {
        Self((0..members).map(|_| Server::start()).collect())
    }
}

impl Topology for Quorum {
    fn urls(&self) -> Vec<String> {
        self.0.iter().map(Server::url).collect()
    }

    fn network(&self) -> (Vec<Proxy>, Vec<String>) {
        in_front_of(self.0.iter().map(Server::port), redis)
    }

    fn tamper(&self, name: &str, thief: Option<&str>) -> bool {
        for server in &self.0 {
            tamper(server, name, thief);
        }
        true
    }

    fn has_queue(&self) -> bool {
        false
    }

    fn has_permits(&self) -> bool {
        false
    }
}

pub struct InPostgres(Postgres);

impl InPostgres {
    pub fn start() -> Self {
        Self(Postgres::start())
    }
}

impl Topology for InPostgres {
    fn urls(&self) -> Vec<String> {
        vec![self.0.url()]
    }

    fn network(&self) -> (Vec<Proxy>, Vec<String>) {
        in_front_of([self.0.port()], url_at)
    }

    fn weight(&self) -> u32 {
        OF_POSTGRES
    }

    fn tamper(&self, name: &str, thief: Option<&str>) -> bool {
        tamper_with_row(&self.0, name, thief);
        true
    }
}

pub struct BehindPooler {
    pooler: PgBouncer,
    server: Postgres,
}

impl BehindPooler {
    pub fn start() -> Self {
        let server = Postgres::start();
        Self {
            pooler: PgBouncer::to(server.port()),
            server,
        }
    }
}

impl Topology for BehindPooler {
    fn urls(&self) -> Vec<String> {
        vec![self.pooler.url()]
    }

    fn network(&self) -> (Vec<Proxy>, Vec<String>) {
        in_front_of([self.pooler.port()], url_at)
    }

    fn weight(&self) -> u32 {
        OF_POSTGRES
    }

    fn tamper(&self, name: &str, thief: Option<&str>) -> bool {
        tamper_with_row(&self.server, name, thief);
        true
    }

    fn tells_waiters(&self) -> bool {
        false
    }
}

fn tamper_with_row(server: &Postgres, name: &str, thief: Option<&str>) {
    let mut statements = format!("DELETE FROM distributed_lock.held WHERE name = '{name}';");
    if let Some(thief) = thief {
        statements += &format!(
            "INSERT INTO distributed_lock.held VALUES ('{name}', '{thief}', 1,
                nextval('distributed_lock.fence'), clock_timestamp() + interval '60 s')"
        );
    }
    server.execute(&statements);
}

pub struct InEtcd(Etcd);

impl InEtcd {
    /// Starts one member, or as many as `LOCK_MEMBERS` says: 1 or 3.
    pub fn start() -> Self {
        match std::env::var("LOCK_MEMBERS").as_deref() {
            Ok("3") => Self(Etcd::three()),
            _ => Self(Etcd::start()),
        }
    }
}

impl Topology for InEtcd {
    fn urls(&self) -> Vec<String> {
        vec![self.0.url()]
    }

    fn network(&self) -> (Vec<Proxy>, Vec<String>) {
        in_front_of([self.0.port(0)], |port| format!("etcd://127.0.0.1:{port}"))
    }

    fn outlasts(&self) -> Duration {
        millis(2000)
    }

    fn tamper(&self, name: &str, thief: Option<&str>) -> bool {
        self.0.tamper(name, thief);
        true
    }
}

fn tamper(server: &Server, name: &str, thief: Option<&str>) {
    match thief {
        Some(thief) => server.query::<()>(&format!("SET {name} {thief} PX 60000")),
        None => server.query::<()>(&format!("DEL {name}")),
    }
}

pub struct InZooKeeper(ZooKeeper);

impl InZooKeeper {
    pub fn of(servers: usize) -> Self {
        let mut zookeeper = ZooKeeper::with(servers, "");
        zookeeper.warm_up();
        Self(zookeeper)
    }
}

impl Topology for InZooKeeper {
    fn urls(&self) -> Vec<String> {
        vec![self.0.url()]
    }

    fn network(&self) -> (Vec<Proxy>, Vec<String>) {
        in_front_of([self.0.port(0)], |port| {
            format!("zookeeper://127.0.0.1:{port}")
        })
    }

    fn outlasts(&self) -> Duration {
        millis(2000)
    }

    fn tamper(&self, name: &str, thief: Option<&str>) -> bool {
        let lock = name.replacen(':', "/", 1);
        let lock = format!("/{lock}");
        let mut client = self.0.client();
        for claim in client.children(&lock) {
            client.delete(&format!("{lock}/{claim}"));
        }
        if let Some(thief) = thief {
            let claim = format!("{lock}/{thief}-lock-");
            client.create(&claim, Kind::PersistentNumbered).unwrap();
        }
        true
    }
}
