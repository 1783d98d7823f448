//! The fixture of a case: managers of two processes, and a prefix for its keys.

use std::sync::Arc;
use std::time::Duration;

use lock_runtime::{Config, LockManager};

use super::topology::Topology;
use crate::support::manager::connected;
use crate::support::time::{Stopwatch, millis, patient};

#[derive(Clone)]
pub struct Site {
    ground: Arc<Ground>,
    case: &'static str,
}

/// The fixture that all cases share. Fields drop in order: first the managers, then the servers, which check
/// for leftovers.
pub struct Ground {
    locks: LockManager,
    other: LockManager,
    looks: LockManager,
    topology: Box<dyn Topology>,
}

impl Ground {
    pub async fn on(topology: impl Topology + 'static) -> Self {
        let config = || patient(topology.config());
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

impl Site {
    pub fn new(ground: Arc<Ground>, case: &'static str) -> Self {
        Self { ground, case }
    }

    /// Returns a key that no other case uses.
    pub fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.case)
    }

    pub fn locks(&self) -> &LockManager {
        &self.ground.locks
    }

    /// Returns a manager that shares only the server with the first, as another process would.
    pub fn other(&self) -> &LockManager {
        &self.ground.other
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
        patient(self.ground.topology.config())
    }

    pub fn has_queue(&self) -> bool {
        self.ground.topology.has_queue()
    }

    /// Deletes the lock as a foreign client. Returns `false` if the topology has no such clients.
    pub fn deleted(&self, key: &str) -> bool {
        self.ground.topology.tamper(&format!("lock:{key}"), None)
    }

    /// Overwrites the lock as a foreign client. Returns `false` if the topology has no such clients.
    pub fn stolen(&self, key: &str) -> bool {
        let name = format!("lock:{key}");
        self.ground.topology.tamper(&name, Some("thief"))
    }

    pub async fn is_held(&self, key: &str) -> bool {
        match self.ground.looks.lock(key).try_acquire().await.unwrap() {
            Some(guard) => guard.release().await.map(|()| false).unwrap(),
            None => true,
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
