//! Tests of the checker: it accepts correct histories and detects each violation.

mod broken;
mod leases;
mod service;
pub mod toy;
mod written;
