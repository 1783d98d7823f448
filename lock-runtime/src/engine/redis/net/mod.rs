//! Connections to one server.

pub(crate) mod batch;
pub(crate) mod connection;
pub(crate) mod driver;
pub(crate) mod per_runtime;
pub(crate) mod permissions;
pub(crate) mod reconnect;
pub(crate) mod replica_ack;
pub(crate) mod socket;
pub(crate) mod target;
pub(crate) mod url;
