//! The servers of a deployment, whatever their engine: tests connect to them, disturb them and look into
//! them.

mod members;
mod memory;
mod postgres;
pub(crate) mod records;
mod redis;
mod shelf;
mod sqlite;

pub use memory::Memory;
pub use postgres::Pooled;
pub use shelf::{SCHEME, Shelf, Shelves};
pub use sqlite::Sqlite;

use std::time::Duration;

use crate::clocks::Clocks;
use crate::proxy::Proxy;
use crate::server::Server;
use crate::time::{millis, soon};
use crate::worker::Worker;

/// How long a process may need to connect again, and to repeat what was not answered.
pub const AGAIN: Duration = millis(6000);

/// The servers, from number 0 on, which end when they are dropped. Most are of Redis: an engine of its own
/// writes what differs.
pub trait Servers: Send + Sync {
    /// Returns the URLs of clients that reach the servers at these ports; several, if each server is a
    /// deployment of its own. There are none if clients find other ways to the servers.
    fn urls_at(&self, ports: &[u16]) -> Vec<String>;

    /// Returns the URLs of clients.
    fn urls(&self) -> Vec<String> {
        self.urls_at(&self.ports())
    }

    /// Returns the servers, if they are of Redis: only these lose their data and obey commands.
    fn redis(&self) -> &[Server] {
        &[]
    }

    fn redis_mut(&mut self) -> &mut [Server] {
        &mut []
    }

    /// Returns the port of each server.
    fn ports(&self) -> Vec<u16> {
        self.redis().iter().map(Server::port).collect()
    }

    /// Freezes a server: it keeps its connections and replies to nothing.
    fn pause(&mut self, number: usize) {
        self.redis_mut()[number].pause();
    }

    fn resume(&mut self, number: usize) {
        self.redis_mut()[number].resume();
    }

    /// Kills a server at once, as a crash does.
    fn kill(&mut self, number: usize) {
        self.redis_mut()[number].kill();
    }

    /// Starts a server that was killed, with the data that it has on its disk.
    fn restart(&mut self, number: usize) {
        self.redis_mut()[number].restart();
    }

    /// Parts a server from the others, which clients still reach.
    fn part(&mut self, _number: usize) {}

    /// Ends the parting of servers.
    fn rejoin(&mut self) {}

    /// Freezes a process that uses the servers, at a moment at which that keeps no other one out.
    fn stop(&self, worker: &Worker) {
        worker.pause();
    }

    /// Returns the connected clients of a server, each with ` addr=127.0.0.1:` and its port.
    fn clients(&self, number: usize) -> Vec<String> {
        self.redis()[number].clients()
    }

    /// Returns the clocks of a server that was started with its own.
    fn clocks(&self, number: usize) -> Option<&Clocks> {
        self.redis()[number].clocks()
    }

    /// Returns the servers of Redis that keep the lock of that key.
    fn keepers(&self, _key: &str) -> &[Server] {
        self.redis()
    }

    /// Deletes a lock, as a foreign client would.
    fn delete(&self, key: &str) {
        for server in self.keepers(key) {
            server.query::<()>(&format!("DEL lock:{key}"));
        }
    }

    /// Overwrites a lock that is held, as a foreign client would. The thief holds it for a minute.
    fn steal(&self, key: &str) {
        for server in self.keepers(key) {
            server.query::<()>(&format!("SET lock:{key} thief PX 60000"));
        }
    }

    /// Returns the locks and queues that are left.
    fn leftovers(&self) -> Vec<String> {
        self.redis().iter().flat_map(Server::leftovers).collect()
    }

    /// Deletes all locks of a server, after they were reported as leftovers.
    fn clear(&mut self, number: usize) {
        let _ = self.redis()[number].try_query::<()>("FLUSHALL");
    }
}

/// The network between a process and servers, which can fail.
pub struct Network {
    /// One in front of each server.
    pub proxies: Vec<Proxy>,
    /// The URLs of clients that reach the servers through the proxies alone.
    pub urls: Vec<String>,
}

impl Network {
    /// Puts a proxy in front of each of these ports, unless clients find other ways to the servers.
    pub fn to(servers: &dyn Servers, ports: &[u16], proxy: fn(u16) -> Proxy) -> Option<Self> {
        if servers.urls_at(ports).is_empty() {
            return None;
        }
        let proxies: Vec<_> = ports.iter().copied().map(proxy).collect();
        let ports: Vec<_> = proxies.iter().map(Proxy::port).collect();
        let urls = servers.urls_at(&ports);
        Some(Self { proxies, urls })
    }

    pub fn each(&self, fault: impl Fn(&Proxy)) {
        self.proxies.iter().for_each(fault);
    }

    /// Returns the sum over all proxies.
    pub fn count(&self, count: fn(&Proxy) -> usize) -> usize {
        self.proxies.iter().map(count).sum()
    }

    /// Waits until the sum is greater than it was.
    pub async fn until_more_than(&self, before: usize, count: fn(&Proxy) -> usize) {
        let more = async {
            while self.count(count) <= before {
                tokio::time::sleep(millis(3)).await;
            }
        };
        soon(more).await;
    }
}
