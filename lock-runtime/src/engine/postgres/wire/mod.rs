//! The statements, values and errors that a server and this process exchange.

pub(crate) mod error;
pub(crate) mod statements;
pub(crate) mod values;
