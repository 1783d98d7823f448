//! Redis: one server or the members of a quorum, Sentinels, and a Cluster.

use std::slice::from_ref;

use super::Servers;
use crate::cluster::Cluster;
use crate::sentinel::Sentinels;
use crate::server::Server;

impl Servers for Vec<Server> {
    fn urls_at(&self, ports: &[u16]) -> Vec<String> {
        let url = |port| format!("redis://127.0.0.1:{port}/");
        ports.iter().map(url).collect()
    }

    fn redis(&self) -> &[Server] {
        self
    }

    fn redis_mut(&mut self) -> &mut [Server] {
        self
    }
}

/// The Sentinels tell clients where the servers are.
impl Servers for Sentinels {
    fn urls_at(&self, _: &[u16]) -> Vec<String> {
        Vec::new()
    }

    fn urls(&self) -> Vec<String> {
        vec![self.url()]
    }

    fn redis(&self) -> &[Server] {
        self.servers()
    }

    fn redis_mut(&mut self) -> &mut [Server] {
        self.servers_mut()
    }

    fn keepers(&self, _: &str) -> &[Server] {
        from_ref(self.server(self.master()))
    }
}

/// The nodes tell clients where the others are.
impl Servers for Cluster {
    fn urls_at(&self, _: &[u16]) -> Vec<String> {
        Vec::new()
    }

    fn urls(&self) -> Vec<String> {
        vec![self.url()]
    }

    fn redis(&self) -> &[Server] {
        self.nodes()
    }

    fn redis_mut(&mut self) -> &mut [Server] {
        self.nodes_mut()
    }

    fn keepers(&self, key: &str) -> &[Server] {
        let master = self.master_of(self.slot(&format!("lock:{key}")));
        from_ref(self.node(master.expect("the slot has a master")))
    }
}
