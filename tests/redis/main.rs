//! The promises of the lock, on real Redis servers, broken networks and killed processes.

#[path = "../promises/cancel.rs"]
mod cancel;
#[path = "../promises/exit.rs"]
mod exit;
#[path = "../promises/fencing.rs"]
mod fencing;
#[path = "../promises/waiting.rs"]
mod waiting;

mod bad_input;
mod blocked;
mod commands;
mod fenced;
mod interop;
mod lost;
mod lost_reply;
mod many;
mod outage;
mod polling;
mod processes;
mod reach;
mod site;
#[path = "../support/mod.rs"]
mod support;

use site::Site;
use support::time;
