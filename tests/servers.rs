//! Tests on real servers, in one binary so that they are linked once.
//!
//! `cargo test --features full --test servers redis::` runs the tests of one folder.

mod cluster;
mod conformance;
mod credentials;
mod early_exit;
mod etcd;
#[path = "api/examples/mod.rs"]
mod examples;
#[path = "api/global.rs"]
mod global;
mod mysql;
mod postgres;
mod queue;
mod quorum;
mod redis;
mod sentinel;
mod server_checks;
mod sqlite;
mod store;
mod zookeeper;
