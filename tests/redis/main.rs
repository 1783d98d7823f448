//! The promises of the lock on broken networks, with killed servers and killed processes.

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
