//! Tests of the shared state under a scheduler that explores many schedules: half of them drawn at random,
//! half by probabilistic concurrency testing.
//!
//! The scheduler can switch tasks at every mutex and flag, and at each request to the server and each reply.
//! `LOCK_SHUTTLE=100000` runs that number of schedules of each scenario. A failure prints its schedule;
//! `LOCK_SHUTTLE_REPLAY=<schedule>`, together with the test's name, replays it.

pub(crate) mod checked_guard;
pub(crate) mod delayed_engine;
pub(crate) mod explore;
pub(crate) mod grant_log;
pub(crate) mod handoff;
pub(crate) mod keeping;
pub(crate) mod loss;
#[cfg(feature = "redis")]
pub(crate) mod pipeline;
pub(crate) mod process;
pub(crate) mod queues;
pub(crate) mod releases;
pub(crate) mod server;
pub(crate) mod set_aside;
pub(crate) mod sharing;
