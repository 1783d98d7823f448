//! Who holds a lock, and who waits for it.

use crate::process::ProcessId;
use crate::process_info::{ProcessInfo, ReportedHold, ReportedWait};
use crate::silence::without_renewal;
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
    pub(crate) rivals: Vec<ClaimInfo>,
}

/// A claim on a lock, which holds it or waits for it: that of a process, with all of its callers, or of
/// another client.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimInfo {
    pub(crate) token: Box<str>,
    pub(crate) mode: Mode,
    /// Which process, and since when, if it uses this library.
    pub(crate) process: Option<(ProcessId, SystemTime)>,
    pub(crate) lease: Option<LeaseInfo>,
    pub(crate) votes: Option<(usize, usize)>,
    pub(crate) report: Option<ClaimReport>,
}

/// What its process has reported of a claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClaimReport {
    process: Arc<ProcessInfo>,
    hold: Option<ReportedHold>,
    wait: Option<ReportedWait>,
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
    /// It ends with the holder's session at the server, which does not say when.
    WithSession,
}

impl LockInfo {
    /// Returns the key, without the manager's prefix.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the holders of the lock: none, one, or several that share it.
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

    /// Returns the claims of which the server knows nothing, and whose processes have
    /// [reported](crate::Config::report) to hold the lock after another holder had begun to: **two may run at
    /// once**. The server has lost its data, the lock was [taken](crate::Revoke::force), or its key was
    /// deleted. The process learns it when it renews its lease.
    ///
    /// Only what a process reports while this goes on is known, on Redis, PostgreSQL and ZooKeeper.
    /// [`LockManager::list`](crate::LockManager::list) and
    /// [`inspect_with_rivals`](crate::LockManager::inspect_with_rivals) look for them.
    #[must_use]
    pub fn rivals(&self) -> &[ClaimInfo] {
        &self.rivals
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

    /// Returns the process, as its [`process_id`](crate::LockManager::process_id) names it; `None` for
    /// another client.
    #[must_use]
    pub fn process(&self) -> Option<ProcessId> {
        self.process.map(|(id, _)| id)
    }

    /// Returns since when, by the clock of that process: when it began to wait for the lock, or acquired it
    /// without a wait. `None` for another client.
    #[must_use]
    pub fn since(&self) -> Option<SystemTime> {
        self.process.map(|(_, since)| since)
    }

    /// Returns what is left of a holder's lease; `None` for a waiter.
    #[must_use]
    pub fn lease(&self) -> Option<LeaseInfo> {
        self.lease
    }

    /// Returns at how many members of a quorum a holder has the lock, and how many members there are. With no
    /// more than half of them it does not hold the lock, but is in the way of others.
    #[must_use]
    pub fn votes(&self) -> Option<(usize, usize)> {
        self.votes
    }
}

/// What the process has [reported](crate::Config::report), as far as it has: the methods return `None` for
/// another client, for a process that has not reported since, and where its report does not say.
impl ClaimInfo {
    /// Returns who the process is.
    #[must_use]
    pub fn process_info(&self) -> Option<&ProcessInfo> {
        Some(&self.report.as_ref()?.process)
    }

    /// Returns the [template](crate::Lock::template) of the call that holds the lock.
    #[must_use]
    pub fn template(&self) -> Option<&str> {
        not_empty(&self.hold()?.template)
    }

    /// Returns where in the code that call is, such as `orders::ship (src/orders.rs:42)`.
    #[must_use]
    pub fn place(&self) -> Option<&str> {
        not_empty(&self.hold()?.place)
    }

    /// Returns the [label](crate::Lock::label) of that call.
    #[must_use]
    pub fn label(&self) -> Option<&str> {
        not_empty(&self.hold()?.label)
    }

    /// Returns for how long that call has held the lock, which other calls of the process may have passed on
    /// to it; or for how long the process has [kept](Self::is_kept) it.
    #[must_use]
    pub fn held_for(&self) -> Option<Duration> {
        let elapsed = self.report.as_ref()?.process.elapsed;
        Some(self.hold()?.held.saturating_add(elapsed))
    }

    /// Returns how many calls of the process had the lock before that one, under the same token: the process
    /// hands a lock on without a request to the server. Which of its calls has the lock is known by the token
    /// and this number; of readers, it also counts those that have joined.
    #[must_use]
    pub fn handoffs(&self) -> Option<u32> {
        Some(self.hold()?.handoffs)
    }

    /// Returns `true` if no call holds the lock: the process keeps it for its next one, and gives it back as
    /// soon as another process waits for it, see [`ReleaseMode::Lazy`](crate::ReleaseMode::Lazy). `false`,
    /// too, if the process does not report it.
    ///
    /// ```
    /// use lock_runtime::{Config, LockError, LockManager, ReleaseMode};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// let locks = LockManager::connect(Config::new("memory://").service("orders")).await?;
    /// let lock = locks.lock("order:42").release_mode(ReleaseMode::Lazy);
    /// drop(lock.acquire().await?);
    /// locks.ask_for_reports().await?;
    /// // The process may take a moment to report.
    /// while !locks.inspect("order:42").await?.holders()[0].is_kept() {}
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.hold().is_some_and(|hold| hold.is_kept)
    }

    /// Returns `true` if the call that holds the lock was asked to give it up, and has not yet: see
    /// [`LockManager::revoke`](crate::LockManager::revoke).
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.hold().is_some_and(|hold| hold.is_revoked)
    }

    /// Returns for how long there has been no sign of life of the process if it is silent: [it should have
    /// reported again](ProcessInfo::silence), or renewed this lease, which is due after a third of it, and
    /// was not when half of it had passed. So it is stopped or cut off, or has ended without a word.
    #[must_use]
    pub fn silence(&self) -> Option<Duration> {
        let renewal = match (self.lease, self.hold().and_then(|hold| hold.ttl)) {
            (Some(LeaseInfo::Ends(left)), Some(ttl)) => without_renewal(ttl, left),
            _ => None,
        };
        let process = self.process_info().and_then(ProcessInfo::silence);
        process.max(renewal)
    }

    /// Returns how many calls of the process wait with a waiter.
    #[must_use]
    pub fn callers(&self) -> Option<u64> {
        Some(self.report.as_ref()?.wait.as_ref()?.callers)
    }

    /// Returns `false` if it is in the way of others without holding the lock.
    pub(crate) fn is_holder(&self) -> bool {
        self.votes
            .is_none_or(|(votes, members)| votes * 2 > members)
    }

    fn hold(&self) -> Option<&ReportedHold> {
        self.report.as_ref()?.hold.as_ref()
    }
}

impl ClaimReport {
    /// Returns what a process reports of the claim with that token.
    pub(crate) fn of(token: &str, process: &Arc<ProcessInfo>) -> ClaimReport {
        let hold = process.holds.iter().find(|hold| *hold.token == *token);
        let wait = process.waits.iter().find(|wait| *wait.token == *token);
        ClaimReport {
            process: process.clone(),
            hold: hold.cloned(),
            wait: wait.cloned(),
        }
    }
}

fn not_empty(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
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
