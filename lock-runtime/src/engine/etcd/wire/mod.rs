//! What is sent to a server, and how its replies are read.

pub(crate) mod error;
pub(crate) mod frames;
pub(crate) mod grpc;
pub(crate) mod messages;
pub(crate) mod txn;
