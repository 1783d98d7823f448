//! The network between workers and servers.

use lock_test_support::proxy::Proxy;
use lock_test_support::server::Server;

/// A proxy for each worker process and each server, so that a single connection can fail.
pub struct Mesh {
    processes: Vec<Vec<Proxy>>,
}

impl Mesh {
    pub fn to(servers: &[Server], processes: usize) -> Self {
        let links = || servers.iter().map(|server| Proxy::reading(server.port()));
        Self {
            processes: (0..processes).map(|_| links().collect()).collect(),
        }
    }

    pub fn urls(&self, process: usize) -> String {
        let urls: Vec<_> = self.processes[process].iter().map(Proxy::url).collect();
        urls.join(" ")
    }

    pub fn proxy(&self, process: usize, server: usize) -> &Proxy {
        &self.processes[process][server]
    }
}
