//! The checker is right: it accepts what may be, and finds whatever is broken.

mod broken;
mod leases;
mod service;
pub mod toy;
mod written;
