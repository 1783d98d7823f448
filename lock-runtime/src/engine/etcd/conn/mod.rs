//! The connection to a cluster: one member at a time, and the leases that were granted through it.

pub(crate) mod batch;
pub(crate) mod channel;
pub(crate) mod client;
pub(crate) mod connect;
pub(crate) mod connection;
pub(crate) mod connection_state;
pub(crate) mod epoch;
pub(crate) mod leases;
pub(crate) mod server_lease;
