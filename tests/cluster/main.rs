//! Locks on a Redis Cluster: slots that move, nodes that come and go.

mod replicas;
#[path = "../support/mod.rs"]
mod support;
mod topology;
