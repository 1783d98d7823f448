//! Tests of the checker: it accepts correct histories and detects each violation.

mod admission;
pub mod generated;
mod handwritten;
mod leases;
mod mutated;
mod revocations;
mod service;
mod set_aside;
mod sharing;
