//! What happens to the locks of a manager.

use crate::error::{LockError, LostCause};
use crate::site::Site;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What [`Config::on_event`](crate::Config::on_event) is called with.
///
/// Each call ends in `Acquired` or `NotAcquired`, and each `Acquired` is followed by `Released` or `Lost`:
/// exactly one of them. Of a call for several keys, `key` is the first in the order of acquisition; a loss
/// names the key that was lost.
///
/// ```
/// use lock_runtime::{Config, LockEvent};
///
/// let config = Config::new("redis://127.0.0.1/").on_event(|event| match event {
///     LockEvent::Lost { key, held, cause, .. } => {
///         eprintln!("lock `{key}` was lost after {held:?}: {cause}");
///     }
///     LockEvent::Renewed { margin, .. } if *margin < 0.3 => {
///         eprintln!("leases are renewed late: {:.0} % were left", margin * 100.0);
///     }
///     _ => {}
/// });
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum LockEvent<'a> {
    /// A call has acquired its lock.
    #[non_exhaustive]
    Acquired {
        /// The key, without the manager's prefix.
        key: &'a str,
        /// The place in the code, if it is named.
        site: Option<&'static Site>,
        /// What the call is for, if [`Lock::label`](crate::Lock::label) says it.
        label: Option<&'a str>,
        /// The time since the call began.
        waited: Duration,
        /// Without a request to the server: another caller of this process has passed the lock on, or shares
        /// it, or the process had kept it.
        locally: bool,
        /// The process had kept the lock since the call before: see
        /// [`ReleaseMode::Lazy`](crate::ReleaseMode::Lazy). Of a call for several keys, all of them.
        resumed: bool,
    },
    /// A call has ended without its lock.
    #[non_exhaustive]
    NotAcquired {
        /// The key, without the manager's prefix.
        key: &'a str,
        /// The place in the code, if it is named.
        site: Option<&'static Site>,
        /// What the call is for, if [`Lock::label`](crate::Lock::label) says it.
        label: Option<&'a str>,
        /// The time since the call began.
        waited: Duration,
        /// Why, in one of few words.
        outcome: Outcome,
        /// The error that the caller gets; `None` if it is canceled or finds the lock taken.
        error: Option<&'a LockError>,
    },
    /// A guard has ended. The lock is on its way to the next caller, or free.
    #[non_exhaustive]
    Released {
        /// The key, without the manager's prefix.
        key: &'a str,
        /// The place in the code, if it is named.
        site: Option<&'static Site>,
        /// What the call was for, if [`Lock::label`](crate::Lock::label) said it.
        label: Option<&'a str>,
        /// For how long the guard lived.
        held: Duration,
        /// The server has confirmed the release, or the lock was passed on within the process. Otherwise the
        /// release goes on in the background.
        confirmed: bool,
    },
    /// A lock was lost before its guard ended.
    #[non_exhaustive]
    Lost {
        /// The key, without the manager's prefix.
        key: &'a str,
        /// The place in the code, if it is named.
        site: Option<&'static Site>,
        /// What the call was for, if [`Lock::label`](crate::Lock::label) said it.
        label: Option<&'a str>,
        /// The time from its acquisition until the loss was noticed.
        held: Duration,
        /// Why it was lost.
        cause: LostCause,
    },
    /// An operator has [revoked](crate::LockManager::revoke) a lock of this process, which has given it up:
    /// its guards were reported as `Lost` before.
    #[non_exhaustive]
    Revoked {
        /// The key, without the manager's prefix.
        key: &'a str,
        /// Who, as they called themselves.
        by: &'a str,
        /// Why, in their words.
        reason: &'a str,
    },
    /// Another process waits for a lock that this one keeps, and has given back now; or that it holds, and
    /// gives back with the guard. Reported once per lock, however often it is recalled, and maybe just before
    /// the acquisition is.
    #[non_exhaustive]
    Recalled {
        /// The key, without the manager's prefix.
        key: &'a str,
    },
    /// Leases were renewed by one request.
    #[non_exhaustive]
    Renewed {
        /// How many.
        count: usize,
        /// The part of the lease that was left when the reply came, from 0 to 1, of the one with the least.
        /// About 0.66 where all is well.
        margin: f64,
    },
    /// Leases were not renewed. They are tried again, until they end.
    #[non_exhaustive]
    RenewalFailed {
        /// The server, without credentials.
        server: &'a str,
        /// How many.
        count: usize,
        /// Why; of several reasons, the last.
        error: &'a (dyn Error + Send + Sync + 'static),
    },
    /// A connection has broken, and could not be replaced at once; or there is none to a server that others
    /// may stand in for.
    #[non_exhaustive]
    ServerDown {
        /// The server, without credentials.
        server: &'a str,
        /// Why it could not be replaced.
        error: &'a (dyn Error + Send + Sync + 'static),
    },
    /// A server that was down no longer is: all connections to it are there again, or it is used no more.
    #[non_exhaustive]
    ServerUp {
        /// The server, without credentials.
        server: &'a str,
    },
}

impl LockEvent<'_> {
    /// Returns the template of the call, or an empty text if the event is about none or its place is not
    /// named.
    #[must_use]
    pub fn template(&self) -> &'static str {
        match self {
            LockEvent::Acquired { site, .. }
            | LockEvent::NotAcquired { site, .. }
            | LockEvent::Released { site, .. }
            | LockEvent::Lost { site, .. } => site.map_or("", Site::template),
            _ => "",
        }
    }
}

/// What happened, in a few words without times, such as ``acquired `order:42` ``.
impl fmt::Display for LockEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockEvent::Acquired { key, .. } => write!(f, "acquired `{key}`"),
            LockEvent::NotAcquired { key, outcome, .. } => {
                write!(f, "not acquired `{key}`: {outcome}")
            }
            LockEvent::Released { key, .. } => write!(f, "released `{key}`"),
            LockEvent::Lost { key, cause, .. } => write!(f, "lost `{key}`: {}", cause.as_str()),
            LockEvent::Revoked { key, by, .. } => write!(f, "revoked `{key}` by {by:?}"),
            LockEvent::Recalled { key } => write!(f, "recalled `{key}`"),
            LockEvent::Renewed { count, .. } => write!(f, "renewed {count} leases"),
            LockEvent::RenewalFailed {
                server,
                count,
                error,
            } => write!(f, "renewal of {count} leases failed at `{server}`: {error}"),
            LockEvent::ServerDown { server, error } => {
                write!(f, "`{server}` is down: {error}")
            }
            LockEvent::ServerUp { server } => write!(f, "`{server}` is no longer down"),
        }
    }
}

/// How a call ended that did not acquire its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// Another holder had the lock for the whole wait.
    Busy,
    /// A single try found the lock held, as is usual for jobs that one replica of several does.
    Taken,
    /// The server gave no usable reply.
    Unavailable,
    /// The caller has dropped the future.
    Canceled,
    /// The call could not succeed: its key or an option is invalid, it would have waited for itself, or the
    /// manager is being shut down.
    Rejected,
}

impl Outcome {
    pub(crate) fn of(error: &LockError, tried_once: bool) -> Outcome {
        match error {
            LockError::Busy { .. } if tried_once => Outcome::Taken,
            LockError::Busy { .. } => Outcome::Busy,
            LockError::Unavailable { .. } => Outcome::Unavailable,
            _ => Outcome::Rejected,
        }
    }

    /// Returns the word for it, in lower case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Busy => "busy",
            Outcome::Taken => "taken",
            Outcome::Unavailable => "unavailable",
            Outcome::Canceled => "canceled",
            Outcome::Rejected => "rejected",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A function that is called for each event.
pub(crate) type LockEventHandler = Arc<dyn Fn(&LockEvent<'_>) + Send + Sync>;
