//! What is done to a lock: its claims are keys, which are put, watched, attached to new leases and deleted.

pub(crate) mod acquire;
pub(crate) mod claim_keys;
pub(crate) mod claims;
pub(crate) mod core;
pub(crate) mod downgrade;
pub(crate) mod entry;
pub(crate) mod fencing;
pub(crate) mod record;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod wait;
pub(crate) mod watched_line;
pub(crate) mod watches;
