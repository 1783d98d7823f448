//! What a server is sent, and what it replies.

pub(crate) mod error;
pub(crate) mod messages;
pub(crate) mod statements;
pub(crate) mod values;
