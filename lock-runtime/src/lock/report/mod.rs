//! The report of a process: one small text on the server, for people who look at its locks.

pub(crate) mod identity;
pub(crate) mod reporter;
pub(crate) mod text;
pub(crate) mod used;
