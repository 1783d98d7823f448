//! Helpers that are independent of locks, for every other module.

pub(crate) mod backoff;
pub(crate) mod block_on;
pub(crate) mod clock;
pub(crate) mod count;
pub(crate) mod first_of;
pub(crate) mod inbox;
pub(crate) mod io_thread;
pub(crate) mod join_all;
pub(crate) mod panics;
#[cfg(feature = "testing")]
pub(crate) mod runtime_clock;
#[cfg(test)]
pub(crate) mod shuttle;
pub(crate) mod sync;
pub(crate) mod thread_end;
pub(crate) mod time;
pub(crate) mod visible;
