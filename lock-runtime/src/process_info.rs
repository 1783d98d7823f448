//! The report of a process.

use crate::process::ProcessId;
use crate::silence::NextReport;
use std::fmt;
use std::time::{Duration, SystemTime};

/// A process that uses locks, as its last report has it: see [`Config::report`](crate::Config::report).
///
/// Whoever may write locks may write a report, so treat the texts as what a stranger says. It is shown as in
/// `orders 2.3.1 at web-7, pid 812`.
///
/// ```
/// use lock_runtime::{Config, LockError, LockManager};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// let config = Config::new("memory://").service("orders").version("2.3.1");
/// let locks = LockManager::connect(config).await?;
/// let guard = locks.lock("order:42").acquire().await?;
/// locks.ask_for_reports().await?;
/// for process in locks.processes().await? {
///     assert!(process.to_string().starts_with("orders 2.3.1 at "));
///     println!("{process} holds {:?} locks", process.held());
/// }
/// # guard.release().await
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessInfo {
    pub(crate) id: ProcessId,
    pub(crate) service: Box<str>,
    pub(crate) version: Box<str>,
    pub(crate) host: Box<str>,
    pub(crate) pid: u32,
    pub(crate) started: SystemTime,
    pub(crate) counts: Option<ReportedCounts>,
    /// The time since the report was stored, if the server knows it.
    pub(crate) age: Option<Duration>,
    /// The same, or for how long the report has been known.
    pub(crate) elapsed: Duration,
    pub(crate) next: NextReport,
    /// The time since the first ask after the report.
    pub(crate) unanswered: Option<Duration>,
    pub(crate) holds: Vec<ReportedHold>,
    pub(crate) waits: Vec<ReportedWait>,
    pub(crate) unlisted: Unlisted,
}

/// How many locks a report does not name. One that is about to be renewed while it is composed may be left
/// out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unlisted {
    /// By guards.
    pub(crate) held: u64,
    /// Kept, or waited for.
    pub(crate) other: u64,
}

impl Unlisted {
    pub(crate) fn add(&mut self, is_held: bool) {
        match is_held {
            true => self.held += 1,
            false => self.other += 1,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReportedCounts {
    pub(crate) held: u64,
    pub(crate) waiting: u64,
    pub(crate) lost: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReportedHold {
    pub(crate) token: Box<str>,
    /// For how long its present guard has had it, or the process has kept it.
    pub(crate) held: Duration,
    /// How many guards of the process had it before, one after the other.
    pub(crate) handoffs: u32,
    pub(crate) is_kept: bool,
    /// Its guards were asked to end.
    pub(crate) is_revoked: bool,
    /// The length of its lease after each renewal; `None` if it is not renewed, or was not yet.
    pub(crate) ttl: Option<Duration>,
    pub(crate) template: Box<str>,
    pub(crate) place: Box<str>,
    pub(crate) label: Box<str>,
    pub(crate) key: Box<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReportedWait {
    pub(crate) token: Box<str>,
    pub(crate) callers: u64,
    pub(crate) key: Box<str>,
}

impl ProcessInfo {
    /// Returns what its [`LockManager::process_id`](crate::LockManager::process_id) returns.
    #[must_use]
    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// Returns the name of its [service](crate::Config::service).
    #[must_use]
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Returns the [version](crate::Config::version) of that service, if it reports one.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        Some(&*self.version).filter(|version| !version.is_empty())
    }

    /// Returns the name of its machine, in Kubernetes that of its pod, if it knows it.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        Some(&*self.host).filter(|host| !host.is_empty())
    }

    /// Returns its process id on that machine.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns when it connected, by its own clock.
    #[must_use]
    pub fn started(&self) -> SystemTime {
        self.started
    }

    /// Returns how many guards it had; `None` if it did not report it.
    #[must_use]
    pub fn held(&self) -> Option<u64> {
        self.counts.map(|counts| counts.held)
    }

    /// Returns how many of its calls waited for a lock; `None` if it did not report it.
    #[must_use]
    pub fn waiting(&self) -> Option<u64> {
        self.counts.map(|counts| counts.waiting)
    }

    /// Returns how many locks it has lost since it connected; `None` if it did not report it.
    #[must_use]
    pub fn lost(&self) -> Option<u64> {
        self.counts.map(|counts| counts.lost)
    }

    /// Returns how many locks its guards held that its report does not name: on Redis,
    /// [`LockManager::list`](crate::LockManager::list) finds these only by a [scan](crate::List::scan). A
    /// report names the 64 that were held longest, if their keys have no more than 200 bytes. Zero on the
    /// other servers, which are listed without reports.
    #[must_use]
    pub fn unlisted_held(&self) -> u64 {
        self.unlisted.held
    }

    /// Returns the same number, with the locks that it kept or waited for.
    #[must_use]
    pub fn unlisted(&self) -> u64 {
        self.unlisted.held.saturating_add(self.unlisted.other)
    }

    /// Returns the time since the report, if the server knows it.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.age
    }

    /// Returns the time since the report if the process is silent: it should have reported again by now. It
    /// does so within the time that its last report names: once in a minute as long as it uses locks (not on
    /// etcd and ZooKeeper), or when it is [asked](crate::LockManager::ask_for_reports), if its last report
    /// was an answer, too. So it is stopped or cut off, or has ended without a word.
    ///
    /// Only the asks of this manager count, and on etcd, which does not know the age of a report, the time
    /// for which this manager has known it.
    #[must_use]
    pub fn silence(&self) -> Option<Duration> {
        self.next.silence(self.elapsed, self.unanswered)
    }

    /// Returns `true` if it was asked to report a moment ago, and is about to, or to become silent: look
    /// again.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.silence().is_none() && self.next.is_awaited(self.elapsed, self.unanswered)
    }
}

impl fmt::Display for ProcessInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.service)?;
        if let Some(version) = self.version() {
            write!(f, " {version}")?;
        }
        if let Some(host) = self.host() {
            write!(f, " at {host}")?;
        }
        write!(f, ", pid {}", self.pid)
    }
}
