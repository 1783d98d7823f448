//! What is done to a lock.

pub(crate) mod acquire;
pub(crate) mod downgrade;
pub(crate) mod fencing;
pub(crate) mod quorum_votes;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod wait;
