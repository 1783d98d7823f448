//! Tests locks on a single Redis server: broken networks, killed servers and processes, permissions and
//! invalid input.

mod bad_input;
mod blocked;
mod clocks;
mod commands;
mod fenced;
mod interop;
mod lost;
mod lost_reply;
mod many;
mod outage;
mod permissions;
mod polling;
mod processes;
mod reach;
mod runtimes;
mod site;
