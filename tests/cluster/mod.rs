//! Tests locks on a Redis Cluster: slot migration, node failures, replicas, routing and permissions.

mod access;
mod dead_waiters;
mod failover;
mod keys;
mod lost_reply;
mod ping;
mod renewal;
mod replicas;
mod shared;
mod slot_migration;
mod waiting;
