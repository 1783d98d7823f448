//! The requests of many callers, on their way together on one connection.

pub(crate) mod exchange;
pub(crate) mod in_flight;
