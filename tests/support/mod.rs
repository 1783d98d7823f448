//! Support for the tests on real servers.
#![allow(dead_code, reason = "each test binary uses its part")]

pub mod certificates;
pub mod clocks;
pub mod cluster;
pub mod database;
pub mod dice;
pub mod history;
pub mod manager;
pub mod proxy;
pub mod refusing;
pub mod resp;
pub mod sentinel;
pub mod server;
pub mod time;
pub mod worker;
