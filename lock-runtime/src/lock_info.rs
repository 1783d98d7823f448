//! Who holds a lock, and who waits for it.

use crate::process::ProcessId;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A lock, as [`LockManager::inspect`](crate::LockManager::inspect) found it.
///
/// ```
/// use lock_runtime::{LockError, LockManager, Mode};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// let locks = LockManager::connect("memory://").await?;
/// let guard = locks.lock("order:42").acquire().await?;
/// let found = locks.inspect("order:42").await?;
/// let [holder] = found.holders() else { panic!("one holds it") };
/// assert_eq!(holder.process(), Some(locks.process_id()));
/// assert_eq!((holder.mode(), found.waiting()), (Mode::Exclusive, 0));
///
/// guard.release().await?;
/// assert!(locks.inspect("order:42").await?.holders().is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LockInfo {
    pub(crate) key: Arc<str>,
    pub(crate) holders: Vec<ClaimInfo>,
    pub(crate) waiters: Vec<ClaimInfo>,
    pub(crate) waiting: u64,
}

/// A claim on a lock, which holds it or waits for it: that of a process, with all of its callers, or of another client.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimInfo {
    pub(crate) token: Box<str>,
    pub(crate) mode: Mode,
    /// Which process, and since when, if it uses this library.
    pub(crate) process: Option<(ProcessId, SystemTime)>,
    pub(crate) lease: Option<LeaseInfo>,
    pub(crate) votes: Option<(usize, usize)>,
}

/// How a lock is held or wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// By one holder at a time. A value that another client has stored counts as such.
    Exclusive,
    /// By up to that many holders.
    Permits(u32),
    /// By any number of readers.
    Read,
}

/// What is left of a holder's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseInfo {
    /// It ends after that time, unless it is renewed before.
    Ends(Duration),
    /// It never ends: the key has no expiry, which no client of this library writes.
    Never,
    /// It ends with the holder's session at the server, which does not tell when.
    WithSession,
}

impl LockInfo {
    /// Returns the key, without the manager's prefix.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns who holds the lock: nobody, one, or several that share it.
    #[must_use]
    pub fn holders(&self) -> &[ClaimInfo] {
        &self.holders
    }

    /// Returns the first waiters, in the order in which they get the lock; 100 at most.
    #[must_use]
    pub fn waiters(&self) -> &[ClaimInfo] {
        &self.waiters
    }

    /// Returns how many processes wait for the lock.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.waiting
    }
}

impl ClaimInfo {
    /// Returns the token under which the server stores the claim, or what identifies another client.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns how it holds or wants the lock.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the process, as its [`process_id`](crate::LockManager::process_id) names it; `None` for another client.
    #[must_use]
    pub fn process(&self) -> Option<ProcessId> {
        self.process.map(|(id, _)| id)
    }

    /// Returns since when, by the clock of that process: when it began to wait for the lock, or acquired it without a wait.
    /// `None` for another client.
    #[must_use]
    pub fn since(&self) -> Option<SystemTime> {
        self.process.map(|(_, since)| since)
    }

    /// Returns what is left of a holder's lease; `None` for a waiter.
    #[must_use]
    pub fn lease(&self) -> Option<LeaseInfo> {
        self.lease
    }

    /// Returns at how many members of a quorum a holder has the lock, and how many members there are. With no more than
    /// half of them it does not hold the lock, but is in the way of others.
    #[must_use]
    pub fn votes(&self) -> Option<(usize, usize)> {
        self.votes
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Exclusive => f.write_str("exclusive"),
            Mode::Permits(permits) => write!(f, "{permits} permits"),
            Mode::Read => f.write_str("read"),
        }
    }
}
