//! Tests locks on a single Redis server: broken networks, killed servers and processes, permissions and
//! invalid input.

mod blocked_threads;
mod clocks;
mod commands;
mod connecting;
pub mod database;
mod fencing;
mod fixture;
mod interop;
mod lost_reply;
mod outage;
mod permissions;
mod ping;
mod polling;
mod processes;
mod replicas;
mod reports;
mod runtimes;
mod scale;
