//! The counters of a manager.

/// What a manager has done since it was connected, and what it does now: see
/// [`LockManager::stats`](crate::LockManager::stats).
///
/// Calls in progress change them one after the other, so numbers of the same moment may differ by a few.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Calls that acquired their lock.
    pub acquired: u64,
    /// Those of them that needed no request: another caller of this process passed the lock on, or shares it,
    /// or the process had kept it.
    pub acquired_locally: u64,
    /// Those of the latter that resumed a lock which the process had kept since the call before: see
    /// [`ReleaseMode::Lazy`](crate::ReleaseMode::Lazy).
    pub resumed: u64,
    /// Locks that another process recalled, since it waits for them, while this one kept them or held them
    /// and might have kept them.
    pub recalled: u64,
    /// Calls that found the lock held for their whole wait.
    pub busy: u64,
    /// Single tries that found the lock held.
    pub taken: u64,
    /// Calls to which the server gave no usable reply.
    pub unavailable: u64,
    /// Calls whose future was dropped before they had their lock.
    pub canceled: u64,
    /// Calls that could not succeed.
    pub rejected: u64,
    /// Guards that ended while their lock was held.
    pub released: u64,
    /// Guards whose lock was lost.
    pub lost: u64,
    /// Leases that were renewed.
    pub renewed: u64,
    /// Renewals that failed, and were tried again.
    pub renewals_failed: u64,
    /// Guards that live and hold their lock now.
    pub held: u64,
    /// Locks without a guard that this process keeps for its next calls now.
    pub kept: u64,
    /// Calls that wait for their turn now.
    pub waiting: u64,
    /// Servers to which a connection is broken now.
    pub servers_down: u64,
}
