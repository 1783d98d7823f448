//! Tests locks on a Redis Cluster: slot migration, node failures, replicas, routing and permissions.

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
