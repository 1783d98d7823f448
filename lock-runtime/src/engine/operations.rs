//! What people see of the locks on a server, and do to them, from outside: no call needs it.

use crate::process::ProcessId;
use crate::util::time::deadline_in;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long one may read that sends one request after the other: how much others have written is not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// The time of each request.
    pub(crate) each: Duration,
    pub(crate) until: Instant,
}

impl Reading {
    pub(crate) const LONGEST: Duration = Duration::from_secs(10);

    /// Begins to read.
    pub(crate) fn begin(each: Duration) -> Reading {
        Reading {
            each,
            until: deadline_in(each + Self::LONGEST),
        }
    }

    /// Returns the deadline of a request that is sent now.
    pub(crate) fn next(self) -> Instant {
        deadline_in(self.each).min(self.until)
    }
}

/// For how long a report is stored where no session ends it.
pub(crate) const REPORT_TTL: Duration = Duration::from_secs(180);

/// How much of a report, and of an ask, is read, in bytes.
pub(crate) const MAX_TEXT: usize = 16 * 1024;

/// The greatest number of reports that are read.
pub(crate) const MAX_REPORTS: usize = 10_000;

/// Returns the beginning of what may be a text of any length, and any bytes.
pub(crate) fn beginning(bytes: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_TEXT)]).into()
}

/// The report of a process. Anything may be in it: whoever may write locks may write a report.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredReport {
    pub(crate) process: ProcessId,
    pub(crate) text: Arc<str>,
    /// The time since it was stored, if the server knows that.
    pub(crate) age: Option<Duration>,
    /// Differs from that of every other report of the process, if the server does not know the age.
    pub(crate) revision: i64,
}

/// What became of a lock that was taken from its holder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Taken {
    /// `true` if the token held the lock until then.
    pub(crate) held: bool,
    /// `true` if a transaction has proven the lock, which no other claim gets until it has ended.
    pub(crate) pinned: bool,
    /// Meaningless unless `held` or `pinned`: a later holder may then have a smaller number.
    pub(crate) fencing_token: u64,
}
