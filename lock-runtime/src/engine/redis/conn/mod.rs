//! Connections to one server: how they are made, kept, and used.

pub(crate) mod batch;
pub(crate) mod client_id;
pub(crate) mod connect;
pub(crate) mod connection;
pub(crate) mod driver;
pub(crate) mod endpoint;
pub(crate) mod exchange;
pub(crate) mod login;
pub(crate) mod per_runtime;
pub(crate) mod pipeline;
pub(crate) mod reconnect;
pub(crate) mod replicas;
pub(crate) mod request;
pub(crate) mod server;
pub(crate) mod socket;
pub(crate) mod subscription;
