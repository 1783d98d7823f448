//! The network between workers and servers.

use lock_test_support::proxy::Proxy;
use lock_test_support::servers::{Network, Servers};

/// A proxy for each worker process and each server, so that a single connection can fail.
pub struct Mesh(Vec<Network>);

impl Mesh {
    pub fn to(servers: &dyn Servers, processes: usize, proxy: fn(u16) -> Proxy) -> Self {
        let ports = servers.ports();
        let network = |_| Network::to(servers, &ports, proxy).expect("there are proxies");
        Self((0..processes).map(network).collect())
    }

    pub fn urls(&self, process: usize) -> String {
        self.0[process].urls.join(" ")
    }

    pub fn proxy(&self, process: usize, server: usize) -> Option<&Proxy> {
        self.0.get(process)?.proxies.get(server)
    }
}
