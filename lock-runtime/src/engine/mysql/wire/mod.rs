//! What is sent and received.

pub(crate) mod error;
pub(crate) mod login;
pub(crate) mod packets;
pub(crate) mod reply;
