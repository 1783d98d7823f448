//! What became of a lock that an operator wanted back.

use crate::lock_info::ClaimInfo;
use std::time::Duration;

/// What became of a lock that was [revoked](crate::LockManager::revoke).
#[derive(Clone, Debug, PartialEq)]
#[must_use = "the lock may still be held"]
#[non_exhaustive]
pub enum Revocation {
    /// It was free, or not held with that token any more.
    NotHeld,
    /// Its holders have stopped, as their processes say: they have released it, or passed it on to another
    /// body than the one that was meant.
    #[non_exhaustive]
    Stopped {
        /// How long that took.
        after: Duration,
    },
    /// Its holders do not have it any more, but their processes do not say that they have stopped: **their
    /// bodies may still run**. A lease has ended while its process was stopped or cut off, another operator
    /// has taken the lock by force, or a process has ended. A holder that has turned it into a read lock
    /// runs, too. A process that does not listen yet may as well have released the lock: it listens once it
    /// has waited, or has held a lock until its renewal.
    #[non_exhaustive]
    Unconfirmed {
        /// After how long they did not have it.
        after: Duration,
    },
    /// They still hold it: the process does not receive what it is asked, a body does not come to its next
    /// await, a guard is not dropped, or it is no process of this library. The lock is free when their leases
    /// end: a process that lives renews them, unless `renew` is off.
    #[non_exhaustive]
    NotStopped {
        /// Those who hold it, and the rest of their leases.
        holders: Vec<ClaimInfo>,
    },
    /// It was taken from them by force.
    #[non_exhaustive]
    Taken {
        /// A number greater than each that they have drawn: a resource that knows it refuses their late
        /// writes.
        fencing_token: u64,
    },
    /// It was taken from them by force, but a transaction has proven it: no other claim gets the lock until
    /// that has ended.
    #[non_exhaustive]
    InTransaction {
        /// A number greater than each that they have drawn.
        fencing_token: u64,
    },
}
