//! The life of a lock in this process.

pub(crate) mod hold;
pub(crate) mod lease;
pub(crate) mod local_queue;
pub(crate) mod pending_releases;
pub(crate) mod release;
pub(crate) mod remote_wait;
pub(crate) mod watchdog;
