//! Locks in this process: acquiring, waiting, holding, renewing, handing off and releasing.

pub(crate) mod acquire;
pub(crate) mod acquire_all;
pub(crate) mod claim_events;
pub(crate) mod context;
pub(crate) mod downgrade;
pub(crate) mod fencing;
pub(crate) mod gathering;
pub(crate) mod handoff;
pub(crate) mod hold;
pub(crate) mod inner;
pub(crate) mod lease;
pub(crate) mod local_lock;
pub(crate) mod local_queue;
pub(crate) mod loss;
pub(crate) mod offer;
pub(crate) mod read_holds;
pub(crate) mod release;
pub(crate) mod remote_wait;
pub(crate) mod renewal_timing;
pub(crate) mod scope;
pub(crate) mod shared;
pub(crate) mod shutdown;
pub(crate) mod tasks;
#[cfg(feature = "postgres")]
pub(crate) mod transaction_proof;
pub(crate) mod watchdog;
