//! The checker is right: it accepts what may be, and finds whatever is broken.

mod broken;
pub mod toy;
mod written;
