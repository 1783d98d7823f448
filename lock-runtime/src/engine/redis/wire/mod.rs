//! What is sent to a server, and how its replies are read.

pub(crate) mod encode;
pub(crate) mod error;
pub(crate) mod reply;
