//! A cluster of a single node, which serves all slots.

use crate::fault::Kind;
use crate::source::Source;
use lock_test_support::proxy::Proxy;
use lock_test_support::server::{Server, free_port};
use lock_test_support::servers::Servers;
use lock_test_support::time::eventually;

use super::{Deployment, Limits, Links, durable};

pub struct OneNode {
    servers: Vec<Server>,
    limits: Limits,
}

impl OneNode {
    /// Starts the node. Only processes get faults: nodes give clients their own addresses, so no proxy can be
    /// in between.
    pub fn with(limits: Limits) -> Self {
        let server = Server::with(None, |_, _| {
            let bus = free_port().to_string();
            let mut options = durable();
            let more = [["--cluster-enabled", "yes"], ["--cluster-port", &bus]];
            options.extend(more.concat().into_iter().map(str::to_owned));
            options
        });
        server.query::<()>("CLUSTER ADDSLOTSRANGE 0 16383");
        eventually("the node serves all slots", || {
            server.info("CLUSTER INFO", "cluster_state").as_deref() == Some("ok")
        });
        Self {
            servers: vec![server],
            limits: Limits {
                variant: "one node",
                links: Links::Nobodys,
                can: Kind::PROCESS.to_vec(),
                account: false,
                overheard: false,
                ..limits
            },
        }
    }
}

impl Deployment for OneNode {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn urls(&self, _: usize) -> String {
        format!("redis-cluster://127.0.0.1:{}", self.servers[0].port())
    }

    fn servers(&self) -> &dyn Servers {
        &self.servers
    }

    fn servers_mut(&mut self) -> &mut dyn Servers {
        &mut self.servers
    }

    fn proxy(&self, _: usize, _: usize) -> Option<&Proxy> {
        None
    }

    fn witnessed(&self) -> Option<Source> {
        Some(Source::Redis(self.servers[0].socket()))
    }
}
