//! A lost lock is noticed in time, and a call that is dropped leaves nothing, wherever it was.

mod body;
mod drops;
mod fault;
mod matrix;
mod runtime;
#[path = "../support/mod.rs"]
mod support;
