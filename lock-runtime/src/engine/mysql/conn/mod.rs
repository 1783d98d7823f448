//! Connections to a server.

pub(crate) mod batch;
pub(crate) mod connect;
pub(crate) mod connection;
pub(crate) mod session;
