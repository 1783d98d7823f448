//! The fixture of a case: managers of two processes, and a prefix for its keys.

use std::sync::Arc;
use std::time::Duration;

use lock_runtime::{Config, LockManager};

use super::network::Network;
use super::topology::Topology;
use lock_test_support::manager::connected;
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{Stopwatch, millis, patient};

/// How long a server may not reply to a manager over a network that fails.
pub const COMMAND_TIMEOUT: Duration = millis(700);

/// Returns the configuration for one deployment or a quorum of several.
pub fn config_of(urls: Vec<String>) -> Config {
    match <[String; 1]>::try_from(urls) {
        Ok([url]) => Config::new(url),
        Err(urls) => Config::quorum(urls),
    }
}

#[derive(Clone)]
pub struct Fixture {
    servers: Arc<Servers>,
    case: &'static str,
}

/// The fixture that all cases share. Fields drop in order: first the managers, then the servers, which check
/// for leftovers.
pub struct Servers {
    locks: LockManager,
    other: LockManager,
    looks: LockManager,
    topology: Box<dyn Topology>,
}

impl Servers {
    pub async fn on(topology: impl Topology + 'static) -> Self {
        let config = || patient(config_of(topology.urls()));
        let connect = || async { connected(config()).await };
        let (locks, other, looks) = tokio::join!(connect(), connect(), connect());
        Self {
            locks,
            other,
            looks,
            topology: Box::new(topology),
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

impl Fixture {
    pub fn new(servers: Arc<Servers>, case: &'static str) -> Self {
        Self { servers, case }
    }

    /// Returns a key that no other case uses.
    pub fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.case)
    }

    pub fn locks(&self) -> &LockManager {
        &self.servers.locks
    }

    /// Returns a manager that shares only the server with the first, as another process would.
    pub fn other(&self) -> &LockManager {
        &self.servers.other
    }

    /// Returns both managers.
    pub fn both(&self) -> [LockManager; 2] {
        [self.locks().clone(), self.other().clone()]
    }

    /// Connects a manager for this case alone, which may shut it down.
    pub async fn another(&self) -> LockManager {
        connected(self.config()).await
    }

    pub fn config(&self) -> Config {
        patient(config_of(self.urls()))
    }

    pub fn urls(&self) -> Vec<String> {
        self.servers.topology.urls()
    }

    /// Returns proxies of this case alone in front of all servers, and their URLs, if the topology has them.
    pub fn network(&self) -> (Vec<Proxy>, Vec<String>) {
        self.servers.topology.network()
    }

    /// Connects a manager for this case alone over a network that can fail, if the topology has one.
    pub async fn over_a_network(&self) -> Option<(Network, LockManager)> {
        let (proxies, urls) = self.network();
        if urls.is_empty() {
            return None;
        }
        let config = config_of(urls).connect_timeout(millis(5000));
        let locks = connected(config.command_timeout(COMMAND_TIMEOUT)).await;
        let warm = async || {
            locks
                .lock(self.key("warm"))
                .acquire()
                .await?
                .release()
                .await
        };
        // A busy machine may take longer once.
        while warm().await.is_err() {}
        Some((Network(proxies), locks))
    }

    /// Returns `true` if other processes reach the locks.
    pub fn has_processes(&self) -> bool {
        self.servers.topology.has_processes()
    }

    /// Returns for how long a process that has died may keep its locks, beyond their ttl.
    pub fn outlasts(&self) -> Duration {
        self.servers.topology.outlasts()
    }

    /// Returns how long those behind a waiter with that ttl wait in vain once its process has died.
    pub fn crash_costs(&self, ttl: Duration) -> Duration {
        match self.outlasts() {
            Duration::ZERO => millis(2200),
            outlasts => ttl + outlasts,
        }
    }

    pub fn tells_waiters(&self) -> bool {
        self.servers.topology.tells_waiters()
    }

    pub fn has_queue(&self) -> bool {
        self.servers.topology.has_queue()
    }

    pub fn has_permits(&self) -> bool {
        self.servers.topology.has_permits()
    }

    /// Deletes the lock as a foreign client. Returns `false` if the topology has no such clients.
    pub fn deleted(&self, key: &str) -> bool {
        self.servers.topology.tamper(&format!("lock:{key}"), None)
    }

    /// Overwrites the lock as a foreign client. Returns `false` if the topology has no such clients.
    pub fn stolen(&self, key: &str) -> bool {
        let name = format!("lock:{key}");
        self.servers.topology.tamper(&name, Some("thief"))
    }

    pub async fn is_held(&self, key: &str) -> bool {
        match self.servers.looks.lock(key).try_acquire().await.unwrap() {
            Some(guard) => guard.release().await.map(|()| false).unwrap(),
            None => true,
        }
    }

    /// Returns `true` if one more reader may share the lock.
    pub async fn is_readable(&self, key: &str) -> bool {
        let reader = self.servers.looks.lock(key).read().try_acquire();
        match reader.await.unwrap() {
            Some(guard) => guard.release().await.map(|()| true).unwrap(),
            None => false,
        }
    }

    /// Waits until the lock is free. Most locks have a TTL of half a minute, so a free lock was released.
    pub async fn until_free(&self, key: &str, limit: Duration) {
        let start = Stopwatch::start();
        while self.is_held(key).await {
            assert!(start.elapsed() < limit, "`{key}` is held after {limit:?}");
            tokio::time::sleep(millis(5)).await;
        }
    }
}
