//! The fixture of a case: managers of two processes, and a prefix for its keys.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_runtime::{Config, LockError, LockManager, Report};
use tokio::time::Instant;

use super::faults::Fault;
use super::topology::Topology;
use lock_test_support::manager::connected;
use lock_test_support::proxy::Proxy;
use lock_test_support::servers::{Network, SCHEME, Servers, Shelf};
use lock_test_support::time::{PATIENCE, millis, patient, soon};
use lock_test_support::worker::Worker;

/// How long a server may not reply to a manager over a network that fails.
pub const COMMAND_TIMEOUT: Duration = millis(700);

/// Returns the configuration for one deployment or a quorum of several.
pub fn config_of(urls: Vec<String>) -> Config {
    match <[String; 1]>::try_from(urls) {
        Ok([url]) if url.starts_with(SCHEME) => Config::store(Shelf::at(&url)),
        Ok([url]) => Config::new(url),
        Err(urls) => Config::quorum(urls),
    }
}

/// Returns `true` if that option was refused.
pub fn is_refused(error: &LockError, named: &str) -> bool {
    matches!(error, LockError::InvalidOption { option, .. } if *option == named)
}

#[derive(Clone)]
pub struct Fixture {
    shared: Arc<Shared>,
    case: &'static str,
}

/// The fixture that all cases share. Fields drop in order: first the managers, then the servers, which check
/// for leftovers.
pub struct Shared {
    locks: LockManager,
    other: LockManager,
    looks: LockManager,
    topology: Topology,
}

impl Shared {
    pub async fn on(topology: Topology) -> Self {
        let config = || patient(config_of(topology.servers.urls()));
        let connect = || (topology.connect)(config());
        let (locks, other, looks) = tokio::join!(connect(), connect(), connect());
        Self {
            locks,
            other,
            looks,
            topology,
        }
    }

    pub async fn close(&self) {
        tokio::join!(
            self.locks.shutdown(),
            self.other.shutdown(),
            self.looks.shutdown()
        );
    }
}

/// Servers of one case, and the managers of two processes. Fields drop in order.
pub struct Alone {
    pub locks: LockManager,
    pub other: LockManager,
    servers: Arc<Mutex<Box<dyn Servers>>>,
}

impl Alone {
    pub async fn suffer(&self, fault: Fault) {
        self.with_servers(move |servers| fault.strike(servers))
            .await;
    }

    pub async fn recover(&self, fault: Fault) {
        self.with_servers(move |servers| fault.heal(servers)).await;
    }

    pub async fn with_servers<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut dyn Servers) -> T + Send + 'static,
    ) -> T {
        let servers = self.servers.clone();
        let act = move || act(&mut **servers.lock().unwrap());
        tokio::task::spawn_blocking(act).await.unwrap()
    }

    pub async fn close(self) {
        tokio::join!(self.locks.shutdown(), self.other.shutdown());
        tokio::task::spawn_blocking(|| drop(self)).await.unwrap();
    }
}

impl Fixture {
    pub fn new(shared: Arc<Shared>, case: &'static str) -> Self {
        Self { shared, case }
    }

    /// Returns a key that no other case uses.
    pub fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.case)
    }

    pub fn locks(&self) -> &LockManager {
        &self.shared.locks
    }

    /// Returns a manager that shares only the server with the first, as another process would.
    pub fn other(&self) -> &LockManager {
        &self.shared.other
    }

    /// Returns both managers.
    pub fn both(&self) -> [LockManager; 2] {
        [self.locks().clone(), self.other().clone()]
    }

    /// Connects a manager for this case alone, which may shut it down.
    pub async fn another(&self) -> LockManager {
        self.connect(self.config()).await
    }

    /// Connects a manager with that configuration, which this case may shut down.
    pub async fn connect(&self, config: Config) -> LockManager {
        (self.topology().connect)(config).await
    }

    pub fn config(&self) -> Config {
        patient(config_of(self.urls()))
    }

    pub fn urls(&self) -> Vec<String> {
        self.topology().servers.urls()
    }

    /// Returns a network of this case alone, if the topology has one.
    pub fn network(&self) -> Option<Network> {
        let servers = &*self.topology().servers;
        let mut ports = servers.ports();
        ports.truncate(self.topology().reached);
        Network::to(servers, &ports, Proxy::to)
    }

    /// Connects a manager for this case alone over a network that can fail, if the topology has one.
    pub async fn over_a_network(&self) -> Option<(Network, LockManager)> {
        let network = self.network()?;
        let locks = self.impatient(network.urls.clone(), None).await;
        Some((network, locks))
    }

    /// Starts servers for this case alone, which can fail, and connects two managers to them, if the topology
    /// has such faults.
    pub async fn alone(&self) -> Option<Alone> {
        let start = self.topology().alone?;
        let servers = tokio::task::spawn_blocking(start).await.unwrap();
        // A server that is killed soon may forget the release.
        let connect = || self.impatient(servers.urls(), Some(millis(3000)));
        let (locks, other) = tokio::join!(connect(), connect());
        let servers = Arc::new(Mutex::new(servers));
        Some(Alone {
            locks,
            other,
            servers,
        })
    }

    /// Returns the configuration of a manager that notices soon when servers do not reply.
    pub fn impatient_config(&self, urls: Vec<String>) -> Config {
        let config = config_of(urls).connect_timeout(millis(5000)).wait(PATIENCE);
        // What is under way when the network fails is the case's alone.
        let config = config.report(Report::Off);
        config.command_timeout(COMMAND_TIMEOUT)
    }

    /// Connects a manager that notices soon when servers do not reply, and which has acquired a lock with
    /// that ttl, or the default one: on ZooKeeper each has a connection of its own.
    async fn impatient(&self, urls: Vec<String>, ttl: Option<Duration>) -> LockManager {
        let locks = connected(self.impatient_config(urls)).await;
        let warm = async || {
            let lock = locks.lock(self.key("warm"));
            let lock = match ttl {
                Some(ttl) => lock.ttl(ttl),
                None => lock,
            };
            lock.acquire().await?.release().await
        };
        // A busy machine may take longer once.
        while warm().await.is_err() {}
        locks
    }

    pub fn topology(&self) -> &Topology {
        &self.shared.topology
    }

    /// Returns the shortest lease whose end a case may await. On a starved machine it ends while the case
    /// does something else, so nothing may depend on it meanwhile.
    pub fn short_lease(&self) -> Duration {
        millis(2000)
    }

    /// Returns the shortest lease that a starved machine still renews in time, after a third of it.
    pub fn renewed_lease(&self) -> Duration {
        millis(12_000)
    }

    pub fn is_virtual(&self) -> bool {
        self.topology().is_virtual
    }

    /// Asserts in virtual time that no more time has passed, but for a few requests. A starved machine may
    /// need more.
    #[track_caller]
    pub fn at_most(&self, limit: Duration, begun: Instant) {
        let took = begun.elapsed();
        assert!(!self.is_virtual() || took <= limit + millis(60), "{took:?}");
    }

    /// Returns `true` if other processes reach the locks.
    pub fn has_processes(&self) -> bool {
        self.topology().has_processes
    }

    /// Returns for how long a process that has died may keep its locks, beyond their ttl.
    pub fn outlasts(&self) -> Duration {
        self.topology().outlasts
    }

    /// Returns how long those behind a waiter with that ttl wait in vain once its process has died.
    pub fn crash_costs(&self, ttl: Duration) -> Duration {
        match self.outlasts() {
            Duration::ZERO => millis(2200),
            outlasts => ttl + outlasts,
        }
    }

    pub fn tells_waiters(&self) -> bool {
        self.topology().tells_waiters
    }

    pub fn hears_asks(&self) -> bool {
        self.topology().hears_asks
    }

    /// Returns `true` if a process keeps locks between its calls.
    pub fn keeps(&self) -> bool {
        self.topology().keeps
    }

    pub fn has_queue(&self) -> bool {
        self.topology().has_queue
    }

    pub fn has_permits(&self) -> bool {
        self.topology().has_permits
    }

    /// Freezes a process, at a moment at which that keeps no other one out.
    pub fn stop(&self, worker: &Worker) {
        self.topology().servers.stop(worker);
    }

    /// Deletes the lock as a foreign client. Returns `false` if the topology has no such clients.
    pub fn deleted(&self, key: &str) -> bool {
        if self.has_processes() {
            self.topology().servers.delete(key);
        }
        self.has_processes()
    }

    /// Overwrites the lock as a foreign client. Returns `false` if the topology has no such clients.
    pub fn stolen(&self, key: &str) -> bool {
        if self.has_processes() {
            self.topology().servers.steal(key);
        }
        self.has_processes()
    }

    pub async fn is_held(&self, key: &str) -> bool {
        match self.shared.looks.lock(key).try_acquire().await.unwrap() {
            Some(guard) => guard.release().await.map(|()| false).unwrap(),
            None => true,
        }
    }

    /// Returns `true` if one more reader may share the lock.
    pub async fn is_readable(&self, key: &str) -> bool {
        let reader = self.shared.looks.lock(key).read().try_acquire();
        match reader.await.unwrap() {
            Some(guard) => guard.release().await.map(|()| true).unwrap(),
            None => false,
        }
    }

    /// Waits until the lock is free: with the default ttl, it was released.
    pub async fn until_free(&self, key: &str) {
        let free = async {
            while self.is_held(key).await {
                tokio::time::sleep(millis(5)).await;
            }
        };
        soon(free).await;
    }

    /// Returns how many processes wait for the lock on the servers.
    pub async fn waiting(&self, key: &str) -> u64 {
        self.shared.looks.inspect(key).await.unwrap().waiting()
    }

    /// Waits until no process waits for the lock on the servers.
    pub async fn until_not_waiting(&self, key: &str) {
        self.until_waiters(key, |waiting| waiting == 0).await;
    }

    /// Waits until at least that number of processes wait for the lock on the servers.
    pub async fn until_waiting(&self, key: &str, least: u64) {
        self.until_waiters(key, |waiting| waiting >= least).await;
    }

    async fn until_waiters(&self, key: &str, is_so: impl Fn(u64) -> bool) {
        let are_so = async {
            while !is_so(self.waiting(key).await) {
                tokio::time::sleep(millis(10)).await;
            }
        };
        soon(are_so).await;
    }
}
