//! The member servers of one test's quorum.

use lock_runtime::{Config, LockManager};

use lock_test_support::manager::connected;
use lock_test_support::proxy::Proxy;
use lock_test_support::server::Server;
use lock_test_support::time::{PATIENCE, eventually, patient};

pub struct Members(pub Vec<Server>);

impl Members {
    pub fn start(count: usize) -> Self {
        Self((0..count).map(|_| Server::start()).collect())
    }

    pub fn config(&self) -> Config {
        patient(Config::quorum(self.0.iter().map(Server::url)))
    }

    pub async fn connect(&self) -> LockManager {
        connected(self.config()).await
    }

    /// Returns a proxy in front of each member.
    pub fn proxies(&self) -> Vec<Proxy> {
        let proxy = |server: &Server| Proxy::to(server.port());
        self.0.iter().map(proxy).collect()
    }

    /// Returns the running members that store the lock.
    pub fn holding(&self, key: &str) -> Vec<usize> {
        let name = format!("lock:{key}");
        let has = |&member: &usize| self.0[member].runs() && self.0[member].exists(&name);
        (0..self.0.len()).filter(has).collect()
    }

    #[track_caller]
    pub fn until_held_by(&self, key: &str, members: &[usize]) {
        let what = format!("`{key}` is held by {members:?}");
        eventually(&what, || self.holding(key) == members);
    }

    /// Returns the number of scripts that the running members have executed.
    pub fn asked(&self) -> u64 {
        let running = self.0.iter().filter(|server| server.runs());
        running
            .map(|server| server.calls(&["evalsha", "eval"]))
            .sum()
    }
}

pub fn through(proxies: &[Proxy]) -> Config {
    Config::quorum(proxies.iter().map(Proxy::url)).connect_timeout(PATIENCE)
}
