//! Locks on a Redis Cluster: slots that move, nodes that come and go.

#[path = "../support/mod.rs"]
mod support;
mod topology;
