//! A lost lock is noticed in time, and a call that is dropped at any point leaves nothing behind.

mod body;
mod drops;
mod fault;
mod matrix;
mod runtime;
#[path = "../support/mod.rs"]
mod support;
