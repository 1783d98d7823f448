//! Locks on a Redis Cluster: slots that move, nodes that come and go.

mod access;
mod dead;
mod failover;
mod keys;
mod lost_reply;
mod moving;
mod renewal;
mod replicas;
mod resharding;
mod shared;
mod waiting;
