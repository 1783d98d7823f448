//! What can go wrong.

use crate::warning::Warning;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Why a lock was not had, or was not kept.
///
/// The message says what happened, to which key and what to do; [`source`](Error::source) carries
/// what the server or the network said. Neither ever contains a password.
///
/// ```
/// use lock_runtime::LockError;
///
/// fn status(error: &LockError) -> u16 {
///     match error {
///         LockError::Busy { .. } => 423,
///         LockError::Unavailable { .. } => 503,
///         _ => 500,
///     }
/// }
/// assert_eq!(status(&LockError::NotInitialized), 500);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LockError {
    /// Somebody else held the lock for as long as the caller was ready to wait.
    #[non_exhaustive]
    Busy {
        /// The key of the lock.
        key: Arc<str>,
        /// How long was waited for it.
        waited: Duration,
    },
    /// The lock was had, and its lease ended before the body or the guard did.
    #[non_exhaustive]
    Lost {
        /// The key of the lock.
        key: Arc<str>,
        /// How it was lost.
        cause: LostCause,
        /// When this was noticed.
        noticed_at: Instant,
    },
    /// The lock server could not be asked, or gave no usable answer in time.
    #[non_exhaustive]
    Unavailable {
        /// The key of the lock; none while connecting.
        key: Option<Arc<str>>,
        /// The server's address, without credentials.
        server: Arc<str>,
        /// What the network or the server said.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// There is no global manager yet: [`init`](crate::init) has not been called, or has not
    /// returned.
    NotInitialized,
    /// There is a global manager already: [`init`](crate::init) was called before.
    AlreadyInitialized,
    /// No lock can have this key.
    #[non_exhaustive]
    InvalidKey {
        /// The beginning of the key.
        key: Arc<str>,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An option has a value that no lock can keep.
    #[non_exhaustive]
    InvalidOption {
        /// The option's name, as in the attribute.
        option: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The configuration can't be used as it is.
    #[non_exhaustive]
    InvalidConfig {
        /// What is wrong with it, and what to do.
        reason: String,
        /// What the driver or the server said of it, if anything.
        source: Option<Arc<dyn Error + Send + Sync>>,
    },
    /// The lock server is unsafe for locks, and [`Config::refuse_unsafe_servers`](crate::Config::refuse_unsafe_servers) asks for more.
    #[non_exhaustive]
    UnsafeServer {
        /// What was found.
        warnings: Arc<[Warning]>,
    },
    /// The manager has been shut down and hands out no more locks.
    #[non_exhaustive]
    ShuttingDown {
        /// The key of the lock.
        key: Arc<str>,
    },
}

/// How a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostCause {
    /// No renewal was confirmed before the lease ran out: the server or the network was away, or
    /// this process or machine was paused.
    Expired,
    /// The server said that the lock isn't this holder's: somebody deleted or overwrote it, or the
    /// server lost it.
    NotOwner,
    /// The lock was held for as long as its `max_hold` allows.
    MaxHold,
    /// The lease still runs, but not for as long as
    /// [`LockGuard::ensure_valid_for`](crate::LockGuard::ensure_valid_for) was asked to make sure of.
    InsufficientTime,
}

impl LockError {
    /// Whether somebody else held the lock for the whole wait. Trying again later helps.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, LockError::Busy { .. })
    }

    /// Whether the lock was had and lost: what it protected may have been touched by others.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, LockError::Lost { .. })
    }

    /// Whether the lock server was out of reach.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, LockError::Unavailable { .. })
    }

    /// The key of the lock, where there is one.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            LockError::Busy { key, .. }
            | LockError::Lost { key, .. }
            | LockError::InvalidKey { key, .. }
            | LockError::ShuttingDown { key } => Some(key),
            LockError::Unavailable { key, .. } => key.as_deref(),
            _ => None,
        }
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::Busy { key, waited } if waited.is_zero() => write!(
                f,
                "lock `{key}` is held by somebody else; try again later or set a `wait`"
            ),
            LockError::Busy { key, waited } => write!(
                f,
                "lock `{key}` was held by somebody else for the {waited:.1?} that were waited; \
                 try again later or raise `wait`"
            ),
            LockError::Lost { key, cause, .. } => write!(f, "lock `{key}` was lost: {cause}"),
            LockError::Unavailable {
                key: Some(key),
                server,
                ..
            } => write!(
                f,
                "lock `{key}` is unavailable: `{server}` gave no usable answer; \
                 check that it runs and can be reached"
            ),
            LockError::Unavailable {
                key: None, server, ..
            } => write!(
                f,
                "cannot connect to `{server}`; check the address, and that the server runs"
            ),
            LockError::NotInitialized => write!(
                f,
                "no lock server is configured; call `lock_runtime::init(url).await` once at startup"
            ),
            LockError::AlreadyInitialized => write!(
                f,
                "the lock server is configured already; call `lock_runtime::init` only once, \
                 or use `LockManager::connect` for a second one"
            ),
            LockError::InvalidKey { key, reason } => {
                write!(f, "lock key `{key}` is invalid: {reason}")
            }
            LockError::InvalidOption { option, reason } => {
                write!(f, "lock option `{option}` is invalid: {reason}")
            }
            LockError::InvalidConfig { reason, .. } => {
                write!(f, "the lock configuration is invalid: {reason}")
            }
            LockError::UnsafeServer { warnings } => {
                f.write_str("the lock server is unsafe for locks")?;
                warnings
                    .iter()
                    .try_for_each(|warning| write!(f, "\n{warning}"))
            }
            LockError::ShuttingDown { key } => write!(
                f,
                "lock `{key}` is refused: the lock manager has been shut down"
            ),
        }
    }
}

impl fmt::Display for LostCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LostCause::Expired => {
                "its lease ran out before a renewal was confirmed; check what the body did last"
            }
            LostCause::NotOwner => {
                "the server no longer has it as ours; check what the body did last, \
                 and who deletes or evicts keys"
            }
            LostCause::InsufficientTime => {
                "less of its lease is left than the next step needs; raise `ttl`"
            }
            LostCause::MaxHold => {
                "it was held for the whole `max_hold`; raise it or do less at once"
            }
        })
    }
}

impl Error for LockError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            LockError::Unavailable { source, .. } => Some(source.as_ref()),
            LockError::InvalidConfig {
                source: Some(source),
                ..
            } => Some(source.as_ref()),
            _ => None,
        }
    }
}

#[cfg(test)]
impl LockError {
    #[cfg(any(feature = "actix", feature = "axum"))]
    pub(crate) fn example_busy() -> LockError {
        LockError::Busy {
            key: "order:42".into(),
            waited: Duration::from_secs(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stay_small() {
        assert!(size_of::<LockError>() <= 64);
    }
}
