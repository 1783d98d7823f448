//! Tests locks on a master that Sentinels name, and that changes with each failover.

mod access;
mod failover;
mod ping;
mod replicas;
mod sentinels;
mod stale_master;
mod stale_sentinel;
