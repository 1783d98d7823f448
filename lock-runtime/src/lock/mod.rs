//! Locks in this process: acquiring, waiting, holding, renewing, handing off and releasing.

pub(crate) mod acquire;
pub(crate) mod acquire_all;
pub(crate) mod claim_events;
pub(crate) mod context;
pub(crate) mod count;
pub(crate) mod downgrade;
#[cfg(feature = "postgres")]
pub(crate) mod ensure;
pub(crate) mod fencing;
pub(crate) mod handoff;
pub(crate) mod hold;
pub(crate) mod inner;
pub(crate) mod lease;
pub(crate) mod local_lock;
pub(crate) mod local_queue;
pub(crate) mod loss;
pub(crate) mod read_holds;
pub(crate) mod release;
pub(crate) mod remote_wait;
pub(crate) mod renewal_timing;
pub(crate) mod scope;
pub(crate) mod shared;
pub(crate) mod shutdown;
pub(crate) mod tasks;
pub(crate) mod watchdog;
