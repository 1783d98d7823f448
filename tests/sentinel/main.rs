//! Tests locks on a master that Sentinels name, and that changes with each failover.

mod access;
mod demoted;
mod failover;
mod replicas;
mod sentinels;
