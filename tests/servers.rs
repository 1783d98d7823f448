//! Tests on real servers, in one binary so that their support code is compiled and linked once.
//!
//! `cargo test --features full --test servers redis::` runs the tests of one folder.

#[path = "check/main.rs"]
mod check;
#[path = "cluster/main.rs"]
mod cluster;
#[path = "conformance/main.rs"]
mod conformance;
#[path = "examples/main.rs"]
mod examples;
mod global;
#[path = "queue/main.rs"]
mod queue;
#[path = "quorum/main.rs"]
mod quorum;
#[path = "redis/main.rs"]
mod redis;
#[path = "sentinel/main.rs"]
mod sentinel;
mod support;
