//! The public error type.

use crate::process::ProcessId;
use crate::process_info::ProcessInfo;
use crate::util::visible::Visible;
use crate::warning::Warning;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// The reason why a lock could not be acquired, or was lost.
///
/// The message names the failure, the key and a remedy; [`source`](Error::source) returns the error of the
/// server or the network. Neither ever contains a password.
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
    /// Another client or caller held the lock for the whole `wait`.
    #[non_exhaustive]
    Busy {
        /// The key of the lock.
        key: Arc<str>,
        /// The time that the call waited; zero for a single try.
        waited: Duration,
        /// The number of callers of this process that waited already, if the call did not wait since these
        /// were as many as `max_waiters`.
        waiting: Option<u32>,
        /// Who holds the lock, as far as this call knows.
        holder: Holder,
    },
    /// The lock was acquired, and its lease ended before the body or the guard did.
    #[non_exhaustive]
    Lost {
        /// The key of the lock.
        key: Arc<str>,
        /// The cause of the loss.
        cause: LostCause,
        /// When this process noticed the loss.
        noticed_at: Instant,
    },
    /// The lock server could not be reached, or returned no usable answer in time.
    #[non_exhaustive]
    Unavailable {
        /// The key of the lock; `None` if the call was about none: while connecting, and from
        /// [`LockManager::ping`](crate::LockManager::ping).
        key: Option<Arc<str>>,
        /// The server's address, without credentials.
        server: Arc<str>,
        /// The error of the network or the server.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The global manager does not exist yet: [`init`](crate::init) has not been called, or has not
    /// returned.
    NotInitialized,
    /// The global manager already exists: [`init`](crate::init) was called before.
    AlreadyInitialized,
    /// The key is empty, longer than 512 MB, or begins with `:`.
    #[non_exhaustive]
    InvalidKey {
        /// The first 64 characters of the key.
        key: Arc<str>,
        /// The reason why it is invalid.
        reason: &'static str,
    },
    /// An option has a value out of range.
    #[non_exhaustive]
    InvalidOption {
        /// The option's name, as in the attribute.
        option: &'static str,
        /// The reason why its value is invalid.
        reason: &'static str,
    },
    /// The engine that keeps the lock, or a lock of this kind, lacks an operation; or a `blocking_` method
    /// was called in a task, which must not block.
    #[non_exhaustive]
    Unsupported {
        /// The name of the method or of the option.
        operation: &'static str,
        /// The reason, and an alternative if there is one.
        reason: &'static str,
    },
    /// The configuration is invalid, or the server does not accept it.
    #[non_exhaustive]
    InvalidConfig {
        /// The reason, and a remedy.
        reason: String,
        /// The error of the driver or the server, if any.
        source: Option<Arc<dyn Error + Send + Sync>>,
    },
    /// The lock server is unsafe for locks, and
    /// [`Config::refuse_unsafe_servers`](crate::Config::refuse_unsafe_servers) is set.
    #[non_exhaustive]
    UnsafeServer {
        /// The findings of the server check.
        warnings: Arc<[Warning]>,
    },
    /// The running task holds the lock itself, and would wait for its own end.
    #[non_exhaustive]
    WouldDeadlock {
        /// The key of the lock.
        key: Arc<str>,
        /// `true` if the task shares the lock with others, and wants it for itself or with fewer of them.
        upgrade: bool,
    },
    /// The manager has been shut down and grants no more locks.
    #[non_exhaustive]
    ShuttingDown {
        /// The key of the lock; `None` from [`LockManager::ping`](crate::LockManager::ping).
        key: Option<Arc<str>>,
    },
}

/// The server replies, but not with everything in that time.
#[derive(Debug)]
pub(crate) struct TooMuch(pub(crate) Duration);

impl fmt::Display for TooMuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "it has more reports of processes, or names of locks, than can be read within {:?}; find the client that \
             writes so many, or raise `command_timeout`",
            self.0
        )
    }
}

impl Error for TooMuch {}

/// Who holds a lock that could not be acquired, as far as the call knows without a further request.
///
/// ```
/// use lock_runtime::{Holder, LockError, LockManager};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// let locks = LockManager::connect("memory://").await?;
/// let guard = locks.lock("order:42").acquire().await?;
/// let busy = locks.lock("order:42").wait(std::time::Duration::ZERO).acquire().await;
/// assert!(matches!(busy, Err(LockError::Busy { holder: Holder::ThisProcess, .. })));
/// # guard.release().await
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holder {
    /// The running task, in a body from which this call was made.
    ThisTask,
    /// This process: another call; a guard that was not released, which may be the caller's own; or the rest
    /// of a `min_hold`.
    ThisProcess,
    /// Another process that uses this library, as the server said last.
    #[non_exhaustive]
    Process {
        /// Which one: that which [`LockManager::process_id`](crate::LockManager::process_id) returns there.
        id: ProcessId,
        /// When it asked for the lock, by its own clock: when it acquired the lock, or began to wait for it.
        since: SystemTime,
        /// Who that is, if the call waited for a second and the process has [reported](crate::Config::report)
        /// it.
        info: Option<Arc<ProcessInfo>>,
    },
    /// Another client. A single try does not learn more than that it is not this process.
    #[default]
    AnotherClient,
    /// A key that never expires, which no client of this library writes.
    NeverExpires,
    /// A value of a type that no lock has.
    ForeignValue,
}

/// The cause of a lost lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostCause {
    /// No renewal was confirmed before the lease expired: the server or the network was unavailable, or this
    /// process or machine was paused.
    Expired,
    /// The `ttl` of a lock without renewal (`renew = false`) has passed.
    NotRenewed,
    /// The server reported that this holder does not own the lock: a client deleted or overwrote the key, the
    /// server lost it, or an operator took the lock by force while this process did not listen.
    NotOwner,
    /// The lock was held for the whole `max_hold`.
    MaxHold,
    /// The lease is still valid, but for less time than
    /// [`LockGuard::ensure_valid_for`](crate::LockGuard::ensure_valid_for) requires.
    InsufficientTime,
    /// The manager was shut down, and the body or the guard did not end within the time that
    /// [`LockManager::shutdown_within`](crate::LockManager::shutdown_within) left it.
    ShutDown,
    /// An operator has [revoked](crate::LockManager::revoke) it: the log and
    /// [`LockEvent::Revoked`](crate::LockEvent) say who and why. The lease is renewed until the body or the
    /// guard has ended.
    Revoked,
}

impl LostCause {
    /// Those for which a hold is lost.
    #[cfg(feature = "metrics")]
    pub(crate) const OF_HOLDS: [LostCause; 6] = [
        LostCause::Expired,
        LostCause::NotRenewed,
        LostCause::NotOwner,
        LostCause::MaxHold,
        LostCause::ShutDown,
        LostCause::Revoked,
    ];

    /// Returns a word for it, such as `expired` or `not_owner`, for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            LostCause::Expired => "expired",
            LostCause::NotRenewed => "not_renewed",
            LostCause::NotOwner => "not_owner",
            LostCause::MaxHold => "max_hold",
            LostCause::InsufficientTime => "insufficient_time",
            LostCause::ShutDown => "shut_down",
            LostCause::Revoked => "revoked",
        }
    }
}

impl LockError {
    /// Returns `true` if the lock was held for the whole wait. A later try may succeed.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, LockError::Busy { .. })
    }

    /// Returns `true` if the lock was acquired and then lost. Other holders may have changed the protected
    /// resource.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, LockError::Lost { .. })
    }

    /// Returns `true` if the lock server could not be reached, or returned no usable answer.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, LockError::Unavailable { .. })
    }

    /// Returns `true` if the same call may succeed later, although nothing is corrected: another holder had
    /// the lock, or the server could not be reached.
    ///
    /// An error of a call that acquires means that the body did not run, so the call can be repeated, best
    /// after a pause. A [`Lost`](LockError::Lost) lock is not retryable: its body may have done a part of its
    /// work.
    ///
    /// ```
    /// use lock_runtime::{LockError, LostCause};
    ///
    /// assert!(LockError::busy("order:42").is_retryable());
    /// assert!(LockError::unavailable("order:42", "connection refused").is_retryable());
    /// assert!(!LockError::lost("order:42", LostCause::Expired).is_retryable());
    /// ```
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            LockError::Busy { holder, .. } => {
                matches!(
                    holder,
                    Holder::ThisProcess | Holder::Process { .. } | Holder::AnotherClient
                )
            }
            LockError::Unavailable { .. } => true,
            _ => false,
        }
    }

    /// Returns the key of the lock, if the error is about one.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            LockError::Busy { key, .. }
            | LockError::Lost { key, .. }
            | LockError::InvalidKey { key, .. }
            | LockError::WouldDeadlock { key, .. } => Some(key),
            LockError::Unavailable { key, .. } | LockError::ShuttingDown { key } => key.as_deref(),
            _ => None,
        }
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::Busy {
                key,
                waiting: Some(waiting),
                ..
            } => write!(
                f,
                "{waiting} callers of this process wait for lock `{}` already; retry later or raise \
                 `max_waiters`",
                Visible(key)
            ),
            LockError::Busy {
                key,
                waited,
                holder,
                ..
            } => {
                let has_waited = !waited.is_zero();
                if has_waited {
                    write!(f, "timed out after {waited:.1?} waiting for ")?;
                }
                let it = if has_waited { "; it" } else { "" };
                write!(f, "lock `{}`{it} is {holder}; ", Visible(key))?;
                f.write_str(match holder {
                    Holder::ThisTask => {
                        "call the inner function without the lock, or set `reentrant = true` on it"
                    }
                    Holder::NeverExpires | Holder::ForeignValue => {
                        "delete the key if no other program needs it, or set another `prefix`"
                    }
                    _ if has_waited => "retry later or raise `wait`",
                    _ => "retry later or set a `wait`",
                })
            }
            LockError::Lost { key, cause, .. } => {
                write!(f, "lock `{}` was lost: {cause}", Visible(key))
            }
            LockError::Unavailable { server, source, .. } if source.is::<TooMuch>() => {
                write!(
                    f,
                    "the lock server `{server}` gave no complete answer: {source}"
                )
            }
            LockError::Unavailable {
                key: Some(key),
                server,
                ..
            } => write!(
                f,
                "lock `{}` is unavailable: `{server}` gave no usable answer; \
                 the source of this error names the cause: check that the server runs, can be \
                 reached, and accepts writes",
                Visible(key)
            ),
            LockError::Unavailable {
                key: None, server, ..
            } => write!(
                f,
                "the lock server `{server}` is unavailable; the source of this error names the cause: check \
                 the address, that the server runs and accepts writes, and with TLS the certificates"
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
                write!(f, "lock key `{}` is invalid: {reason}", Visible(key))
            }
            LockError::InvalidOption { option, reason } => {
                write!(f, "lock option `{option}` is invalid: {reason}")
            }
            LockError::Unsupported { operation, reason } => {
                write!(f, "`{operation}` is not supported here: {reason}")
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
            LockError::WouldDeadlock { key, upgrade: true } => write!(
                f,
                "lock `{key}` is shared by the task that now asks for it with fewer holders, or alone; \
                 acquire it like that from the start"
            ),
            LockError::WouldDeadlock { key, .. } => write!(
                f,
                "lock `{key}` is held by the task that asks for it, which would wait for itself; call the \
                 inner function without the lock, or set `reentrant = true` on it"
            ),
            LockError::ShuttingDown { key: Some(key) } => write!(
                f,
                "lock `{key}` is refused: the lock manager has been shut down"
            ),
            LockError::ShuttingDown { key: None } => {
                write!(f, "the lock manager has been shut down")
            }
        }
    }
}

/// Follows "the lock is".
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Holder::Process { id, since, info } => {
                let ago = since.elapsed().unwrap_or_default();
                match info {
                    Some(info) => write!(f, "held by {info} (process `{id}`)")?,
                    None => write!(f, "held by process `{id}`")?,
                }
                return write!(f, ", which asked for it {ago:.1?} ago");
            }
            Holder::ThisTask => "held by the task that asks for it",
            Holder::ThisProcess => {
                "held by this process: by another call, by a guard that was not released, or for the rest of a `min_hold`"
            }
            Holder::AnotherClient => "held by another client",
            Holder::NeverExpires => {
                "held by a key that never expires, which is no lock of this library"
            }
            Holder::ForeignValue => "held by a key whose value is not that of a lock",
        })
    }
}

impl fmt::Display for LostCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LostCause::Expired => {
                "its lease expired before a renewal was confirmed; verify the last step of the body"
            }
            LostCause::NotRenewed => {
                "its `ttl` has passed, and it is not renewed; raise `ttl` or leave out `renew = false`"
            }
            LostCause::NotOwner => {
                "the server reports that this holder does not own it; the key was deleted, evicted or \
                 overwritten, or an operator has taken the lock by force"
            }
            LostCause::InsufficientTime => {
                "the remaining lease is shorter than requested; raise `ttl`"
            }
            LostCause::MaxHold => {
                "it was held for the whole `max_hold`; raise `max_hold` or shorten the body"
            }
            LostCause::Revoked => {
                "an operator has revoked it; the log of this process says who and why"
            }
            LostCause::ShutDown => {
                "the lock manager was shut down while it was held; raise the time of `shutdown_within`"
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

/// Errors for tests of how a service handles them. The library returns them with more detail.
///
/// ```
/// use lock_runtime::{LockError, LostCause};
///
/// fn status(error: &LockError) -> u16 {
///     match error {
///         LockError::Busy { .. } => 423,
///         LockError::Unavailable { .. } => 503,
///         _ => 500,
///     }
/// }
/// assert_eq!(status(&LockError::busy("order:42")), 423);
/// assert_eq!(status(&LockError::unavailable("order:42", "connection refused")), 503);
/// assert_eq!(status(&LockError::lost("order:42", LostCause::Expired)), 500);
/// ```
impl LockError {
    /// Returns the error of a single try that found the lock held by another client.
    #[must_use]
    pub fn busy(key: impl Into<Arc<str>>) -> LockError {
        LockError::Busy {
            key: key.into(),
            waited: Duration::ZERO,
            waiting: None,
            holder: Holder::AnotherClient,
        }
    }

    /// Returns the error of a lock that has been lost now.
    #[must_use]
    pub fn lost(key: impl Into<Arc<str>>, cause: LostCause) -> LockError {
        LockError::Lost {
            key: key.into(),
            cause,
            noticed_at: Instant::now(),
        }
    }

    /// Returns the error of a lock whose server gave no usable answer.
    #[must_use]
    pub fn unavailable(
        key: impl Into<Arc<str>>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> LockError {
        LockError::Unavailable {
            key: Some(key.into()),
            server: "localhost".into(),
            source: Arc::from(source.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stay_small() {
        assert!(size_of::<LockError>() <= 72);
    }

    #[test]
    fn too_much_to_read_is_no_outage() {
        let error = LockError::Unavailable {
            key: None,
            server: "redis://h".into(),
            source: Arc::new(TooMuch(Duration::from_millis(10_500))),
        };
        let text = error.to_string();
        assert!(
            text.contains("`redis://h`") && text.contains("within 10.5s"),
            "{text}"
        );
        assert!(
            !text.contains("unavailable") && !text.contains("address"),
            "{text}"
        );
    }

    #[test]
    fn what_a_terminal_would_interpret_is_escaped() {
        let key: Arc<str> = "a\u{1b}[2J\n\u{202e}'b'".into();
        let (waited, holder) = (Duration::ZERO, Holder::ThisProcess);
        let busy = |waiting| LockError::Busy {
            key: key.clone(),
            waited,
            holder: holder.clone(),
            waiting,
        };
        let reason = "it is reserved";
        for error in [
            busy(None),
            busy(Some(1)),
            LockError::lost(&*key, LostCause::Expired),
            LockError::unavailable(&*key, "it is down"),
            LockError::InvalidKey { key, reason },
        ] {
            let text = error.to_string();
            assert!(text.contains(r"`a\u{1b}[2J\n\u{202e}'b'`"), "{text}");
        }
    }
}
