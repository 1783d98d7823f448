//! The connection that listens for messages to this process.

pub(crate) mod listener;
pub(crate) mod subscriber;
pub(crate) mod subscription;
