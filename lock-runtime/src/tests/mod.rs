//! Tests of the whole crate, on `memory://`.

pub(crate) mod lease_rules;
pub(crate) mod shuttle;
