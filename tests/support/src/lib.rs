//! Support for the tests on real servers.

pub mod certificates;
pub mod clocks;
pub mod cluster;
pub mod etcd;
pub mod etcd_gateway;
pub mod exclusion;
pub mod executor;
pub mod manager;
pub mod members;
pub mod permissions;
pub mod pgbouncer;
pub mod pollers;
pub mod postgres;
pub mod promtool;
pub mod proxy;
pub mod refusing;
pub mod replica;
pub mod resp;
pub mod rng;
pub mod sentinel;
pub mod server;
pub mod servers;
pub mod stale_leader;
pub mod time;
pub mod worker;
pub mod zookeeper;
