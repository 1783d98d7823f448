//! A part of the servers.

use crate::config::Config;
use crate::engine::tests::peer::Peer;
use crate::engine::tests::topology::Topology;
use lock_test_support::servers::Network;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A part of the servers that one case has for itself: a prefix, or in PostgreSQL a schema.
#[derive(Clone)]
pub(crate) struct Space {
    topology: Arc<Topology>,
    pub(crate) prefix: String,
}

impl Deref for Space {
    type Target = Topology;

    fn deref(&self) -> &Topology {
        &self.topology
    }
}

impl Space {
    pub(crate) fn new(topology: &Arc<Topology>) -> Space {
        static SPACES: AtomicUsize = AtomicUsize::new(0);

        Space {
            topology: topology.clone(),
            prefix: format!("lock:t{}:", SPACES.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Returns another part of the same servers, with a long prefix.
    pub(crate) fn beside(&self) -> Space {
        let prefix = Space::new(&self.topology).prefix;
        Space {
            prefix: format!("{prefix}{}:", "x".repeat(65 - prefix.len())),
            ..self.clone()
        }
    }

    pub(crate) fn config(&self) -> Config {
        self.topology.config(&self.prefix)
    }

    /// Returns a process that uses this part.
    pub(crate) async fn peer(&self) -> Peer {
        self.connect(self.config()).await
    }

    async fn connect(&self, config: Config) -> Peer {
        let mut peer = Peer::connect(config).await;
        peer.is_at_quorum = self.is_quorum;
        peer
    }

    pub(crate) async fn peers<const N: usize>(&self) -> [Peer; N] {
        let mut peers = Vec::new();
        for _ in 0..N {
            peers.push(self.peer().await);
        }
        peers.try_into().ok().expect("there are as many")
    }

    /// Returns a process whose network can fail, unless it finds other ways to the servers.
    pub(crate) async fn distant_peer(&self) -> Option<(Network, Peer)> {
        let (network, config) = self.over_a_network(&self.prefix)?;
        Some((network, self.connect(config).await))
    }

    /// Returns the servers, which are of that kind.
    pub(crate) fn servers<S: Send + Sync + 'static>(&self) -> Arc<S> {
        let servers = self.engine.clone().downcast();
        servers.expect("they are of that kind")
    }

    /// Returns the name of a lock.
    pub(crate) fn name(&self, key: &str) -> String {
        [&self.prefix, key].concat()
    }
}
