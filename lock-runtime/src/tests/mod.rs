//! Tests of the whole crate on the embedded engine.

pub(crate) mod corpus;
pub(crate) mod lease_rules;
pub(crate) mod shuttle;
