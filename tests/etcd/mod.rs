//! Tests locks in etcd: broken networks, killed and frozen members, ended leases, users, and other clients.

mod access;
mod bad_input;
mod elections;
mod foreign_clients;
mod leases;
mod lost_replies;
