//! The servers behind a URL: a standalone server, the master that Sentinels name, or a cluster.

pub(crate) mod cluster;
pub(crate) mod router;
pub(crate) mod sentinel;

use crate::engine::redis::address::Address;
use crate::engine::redis::conn::endpoint::Discovery;
use crate::engine::redis::topology::cluster::seeds::SeedNodes;
use crate::engine::redis::topology::sentinel::Sentinels;
use std::fmt;
use std::sync::Arc;

#[derive(Clone)]
pub(crate) enum Topology {
    Standalone(Arc<Address>),
    Sentinel(Arc<Sentinels>),
    Cluster(Arc<SeedNodes>),
}

impl Topology {
    pub(crate) fn discovery(&self) -> Arc<dyn Discovery> {
        match self {
            Topology::Standalone(address) => address.clone(),
            Topology::Sentinel(sentinels) => sentinels.clone(),
            Topology::Cluster(seeds) => seeds.clone(),
        }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.discovery().fmt(f)
    }
}
