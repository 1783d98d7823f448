//! The connection that listens for messages to this process.

pub(crate) mod listener;
pub(crate) mod reconnect;
pub(crate) mod subscription;
