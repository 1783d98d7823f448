//! The parts that threads share, under a scheduler that tries one order of their steps after the
//! other, half of them drawn at random, half by probabilistic concurrency testing.
//!
//! Every mutex and flag is a point where another thread may go first, and so is each request to the
//! server and each of its answers. `LOCK_SHUTTLE=100000` tries so many orders of each scenario. A
//! failure prints its order; `LOCK_SHUTTLE_REPLAY=<order>` beside the test's name tries that one again.

pub(crate) mod checked_guard;
pub(crate) mod delayed_engine;
pub(crate) mod explore;
pub(crate) mod grant_log;
pub(crate) mod handoff;
pub(crate) mod loss;
pub(crate) mod process;
pub(crate) mod queues;
pub(crate) mod releases;
pub(crate) mod server;
