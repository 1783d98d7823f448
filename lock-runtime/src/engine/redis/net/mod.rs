//! Connections to one server: how they are made, kept, and used.

pub(crate) mod batch;
pub(crate) mod client_id;
pub(crate) mod connection;
pub(crate) mod connector;
pub(crate) mod driver;
pub(crate) mod endpoint;
pub(crate) mod error;
pub(crate) mod per_runtime;
pub(crate) mod reconnect;
pub(crate) mod replica_ack;
pub(crate) mod server;
pub(crate) mod socket;
pub(crate) mod target;
pub(crate) mod url;
