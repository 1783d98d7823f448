//! What is done to a lock: its claims are nodes, which are created, looked at, watched and deleted.

pub(crate) mod acquire;
pub(crate) mod claims;
pub(crate) mod containers;
pub(crate) mod downgrade;
pub(crate) mod enter;
pub(crate) mod entry;
pub(crate) mod fencing;
pub(crate) mod look;
pub(crate) mod node;
pub(crate) mod prove;
pub(crate) mod read;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod wait;
