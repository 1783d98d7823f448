//! The operations on a lock: each is one call of a function of the schema.

pub(crate) mod acquire;
pub(crate) mod downgrade;
pub(crate) mod fencing;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod transaction_proof;
pub(crate) mod wait;
