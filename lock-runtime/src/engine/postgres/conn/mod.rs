//! Connections: one for requests, which go out in rounds, and one that listens for messages.

pub(crate) mod backend;
pub(crate) mod batch;
pub(crate) mod connect;
pub(crate) mod listen;
pub(crate) mod pooler;
pub(crate) mod prepared;
pub(crate) mod schema_setup;
pub(crate) mod stale_backends;
#[cfg(feature = "tls")]
pub(crate) mod tls;
pub(crate) mod trial;
