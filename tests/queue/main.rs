//! Waiting for a lock, in order and pushed: the scripts, the queue, and what goes wrong with both.

mod ear;
mod interleavings;
mod lua;
mod scripts;
#[path = "../support/mod.rs"]
mod support;
mod table;
