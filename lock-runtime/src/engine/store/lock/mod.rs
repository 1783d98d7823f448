//! The requests of locks.

mod acquire;
mod downgrade;
mod fencing;
mod release;
mod renew;
mod transaction_proof;
mod wait;

use crate::engine::request::Claim;
use crate::engine::store::machine::Want;

impl Want {
    pub(crate) fn of(claim: &Claim) -> Want {
        Want {
            token: claim.token,
            ttl: u32::try_from(claim.ttl.as_millis()).unwrap_or(u32::MAX),
        }
    }
}
