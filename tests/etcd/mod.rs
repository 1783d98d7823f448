//! Tests locks in etcd: broken networks, killed and frozen members, ended and revoked leases, users, and
//! other clients.

pub mod access;
mod elections;
mod foreign_clients;
mod full_disk;
mod inspect;
mod leases;
mod lost_replies;
mod stale_leader;
